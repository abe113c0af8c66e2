// The server of net/http. Whether it speaks HTTP/2 is up to GODEBUG=http2server=0.
package main

import (
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
)

type webServer struct {
	lock    sync.Mutex
	present int
	all     chan struct{}
}

func serveWeb(listener net.Listener, certificate tls.Certificate) error {
	server := http.Server{
		Handler:   &webServer{all: make(chan struct{})},
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}},
	}
	return server.ServeTLS(listener, "", "")
}

func (server *webServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Protocol", r.Proto)
	w.Header().Set("X-Peer", r.RemoteAddr)
	number, _ := strconv.ParseInt(r.URL.Query().Get("n"), 10, 64)
	switch r.URL.Path {
	case "/hello":
		fmt.Fprintf(w, "hello, %s", r.Method)
	case "/digest":
		fmt.Fprintf(w, "%d %s", r.ContentLength, digest(r.Body))
	case "/trailers":
		w.Header().Set("Trailer", "X-Digest, X-Asked")
		sum := digest(r.Body)
		fmt.Fprint(w, "with trailers")
		w.Header().Set("X-Digest", sum)
		w.Header().Set("X-Asked", r.Trailer.Get("X-Sum"))
	case "/content":
		w.Header().Set("Content-Length", strconv.FormatInt(number, 10))
		io.Copy(w, content(number))
	case "/meet":
		server.meet(w, r, int(number))
	case "/stay":
		stay(w, r)
	default:
		http.NotFound(w, r)
	}
}

func digest(from io.Reader) string {
	hash := sha256.New()
	if _, err := io.Copy(hash, from); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%x", hash.Sum(nil))
}

// meet answers once so many requests are here.
func (server *webServer) meet(w http.ResponseWriter, r *http.Request, number int) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	server.lock.Lock()
	server.present++
	if server.present == number {
		close(server.all)
	}
	server.lock.Unlock()
	select {
	case <-server.all:
		fmt.Fprintf(w, "met %s", body)
	case <-r.Context().Done():
	}
}

// stay never ends by itself. With ?head, its answer has begun.
func stay(w http.ResponseWriter, r *http.Request) {
	_, head := r.URL.Query()["head"]
	if head {
		fmt.Fprint(w, "begun")
		w.(http.Flusher).Flush()
	}
	say(fields{"event": "began"})
	<-r.Context().Done()
	say(fields{"event": "left", "why": r.Context().Err().Error()})
}
