// The clients and the servers in Go of test_http2_go.py, as one program.
//
//	web-server CERTIFICATE           net/http, on a port of its own
//	rpc-server CERTIFICATE           gRPC, on a port of its own
//	web ADDRESS TASK                 a client of net/http
//	rpc [flags] ADDRESS TASK         a client of gRPC
//
// CERTIFICATE is a file of PEM with the chain and the key. A server prints an event a line, and ends with its stdin.
// A client prints one result. Both speak JSON. The way through the proxy is in the environment alone, as users have it:
// HTTPS_PROXY and SSL_CERT_FILE.
package main

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// A client that takes longer has failed.
const clientLimit = 60 * time.Second

// fields is a line of JSON.
type fields map[string]interface{}

var output sync.Mutex

func say(line fields) {
	output.Lock()
	defer output.Unlock()
	if err := json.NewEncoder(os.Stdout).Encode(line); err != nil {
		fail(err)
	}
}

func fail(reason interface{}) {
	fmt.Fprintln(os.Stderr, reason)
	os.Exit(1)
}

func main() {
	if len(os.Args) < 3 {
		fail("usage: web-server|rpc-server CERTIFICATE, or web|rpc ADDRESS TASK")
	}
	arguments := os.Args[2:]
	switch os.Args[1] {
	case "web-server":
		serve(arguments[0], serveWeb)
	case "rpc-server":
		serve(arguments[0], serveRPC)
	case "web":
		ask(arguments, askWeb)
	case "rpc":
		ask(arguments, askRPC)
	default:
		fail("unknown: " + os.Args[1])
	}
}

// serve listens, says where, and runs the server until stdin ends.
func serve(file string, run func(net.Listener, tls.Certificate) error) {
	certificate, err := tls.LoadX509KeyPair(file, file)
	if err != nil {
		fail(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fail(err)
	}
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	say(fields{"event": "listening", "port": listener.Addr().(*net.TCPAddr).Port})
	fail(run(listener, certificate))
}

// ask runs a task of a client and prints its result.
func ask(arguments []string, run func(context.Context, []string) (fields, error)) {
	ctx, cancel := context.WithTimeout(context.Background(), clientLimit)
	defer cancel()
	result, err := run(ctx, arguments)
	if err != nil {
		fail(err)
	}
	say(result)
}

// awaitStdin returns once a line has come. The test sends it when the server has seen the request.
func awaitStdin() {
	os.Stdin.Read(make([]byte, 1))
}

type zeros struct{}

func (zeros) Read(into []byte) (int, error) {
	for index := range into {
		into[index] = 0
	}
	return len(into), nil
}

// content is so many bytes that look random, the same each time: AES-128 in counter mode, all zeros as its key.
func content(size int64) io.Reader {
	block, err := aes.NewCipher(make([]byte, 16))
	if err != nil {
		fail(err)
	}
	stream := cipher.NewCTR(block, make([]byte, 16))
	return io.LimitReader(cipher.StreamReader{S: stream, R: zeros{}}, size)
}
