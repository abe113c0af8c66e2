// The client of gRPC. It finds the proxy by itself, in HTTPS_PROXY.
package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"strconv"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const pingPongs = 1000

// Enough for a call to reach the server. A test waits so long.
const shortDeadline = time.Second

type rpcClient struct {
	context.Context
	calls *grpc.ClientConn
	other *grpc.ClientConn // for the slow one of two
}

func askRPC(ctx context.Context, arguments []string) (fields, error) {
	options := flag.NewFlagSet("rpc", flag.ExitOnError)
	subtype := options.String("subtype", "", "what follows application/grpc+")
	apart := options.Bool("apart", false, "the slow one has a connection of its own")
	options.Parse(arguments)
	dial := func() (*grpc.ClientConn, error) {
		return grpc.Dial(
			options.Arg(0),
			grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{})),
			grpc.WithDefaultCallOptions(grpc.CallContentSubtype(*subtype)),
		)
	}
	calls, err := dial()
	if err != nil {
		return nil, err
	}
	defer calls.Close()
	client := &rpcClient{ctx, calls, calls}
	if *apart {
		if client.other, err = dial(); err != nil {
			return nil, err
		}
		defer client.other.Close()
	}
	switch task := options.Arg(1); task {
	case "kinds":
		return client.kinds()
	case "fails":
		return client.unary(ctx, "/s/Fails", nil), nil
	case "deadline":
		return client.deadline()
	case "cancel":
		return client.cancel()
	case "ping-pong":
		return client.pingPong()
	case "refused":
		return client.refused()
	case "pour":
		return client.pour()
	case "take":
		return client.take()
	default:
		return nil, fmt.Errorf("unknown task: %s", task)
	}
}

// end is how a call ended, as its program sees it.
func end(err error) fields {
	told := status.Convert(err)
	return fields{"code": told.Code().String(), "message": told.Message()}
}

func (client *rpcClient) unary(ctx context.Context, method string, request []byte) fields {
	var answer []byte
	var trailer metadata.MD
	result := end(client.calls.Invoke(ctx, method, request, &answer, grpc.Trailer(&trailer)))
	result["answer"], result["trailers"] = string(answer), trailer
	return result
}

var bothWays = grpc.StreamDesc{ServerStreams: true, ClientStreams: true}

// open begins a call, and sends its only message where there is one.
func (client *rpcClient) open(
	ctx context.Context, on *grpc.ClientConn, kind grpc.StreamDesc, method string, message []byte,
) (grpc.ClientStream, error) {
	stream, err := on.NewStream(ctx, &kind, method)
	if err != nil || message == nil {
		return stream, err
	}
	if err := stream.SendMsg(message); err != nil {
		return nil, err
	}
	return stream, stream.CloseSend()
}

// rest calls for each message that comes.
func rest(stream grpc.ClientStream, do func([]byte)) error {
	for {
		var message []byte
		if err := stream.RecvMsg(&message); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		do(message)
	}
}

func (client *rpcClient) kinds() (fields, error) {
	result := fields{"unary": client.unary(client, "/s/Unary", []byte("abc"))}
	var numbers []string
	keep := func(message []byte) { numbers = append(numbers, string(message)) }

	stream, err := client.open(client, client.calls, grpc.StreamDesc{ServerStreams: true}, "/s/Server", []byte("1000"))
	if err == nil {
		err = rest(stream, keep)
	}
	result["server"], numbers = numbers, nil
	if err != nil {
		return nil, fmt.Errorf("Server: %w", err)
	}

	stream, err = client.open(client, client.calls, grpc.StreamDesc{ClientStreams: true}, "/s/Client", nil)
	for index := 0; err == nil && index < 1000; index++ {
		err = stream.SendMsg(make([]byte, 10))
	}
	if err == nil {
		stream.CloseSend()
		err = rest(stream, keep)
	}
	result["client"], numbers = numbers, nil
	if err != nil {
		return nil, fmt.Errorf("Client: %w", err)
	}

	// All messages of the client leave before the first answer is read.
	stream, err = client.open(client, client.calls, bothWays, "/s/Echo", nil)
	for index := 0; err == nil && index < 1000; index++ {
		err = stream.SendMsg([]byte(strconv.Itoa(index)))
	}
	if err == nil {
		stream.CloseSend()
		err = rest(stream, keep)
	}
	result["both"] = numbers
	return result, err
}

func (client *rpcClient) deadline() (fields, error) {
	before := client.unary(client, "/s/Unary", []byte("before"))
	ctx, cancel := context.WithTimeout(client, shortDeadline)
	defer cancel()
	return fields{
		"before": before, "waited": client.unary(ctx, "/s/Waits", nil),
		"after": client.unary(client, "/s/Unary", []byte("after")),
	}, nil
}

func (client *rpcClient) cancel() (fields, error) {
	ctx, cancel := context.WithCancel(client)
	defer cancel()
	go func() {
		awaitStdin()
		cancel()
	}()
	return fields{
		"waited": client.unary(ctx, "/s/Waits", nil),
		"after":  client.unary(client, "/s/Unary", []byte("after")),
	}, nil
}

// pingPong sends the next message when the last one is back.
func (client *rpcClient) pingPong() (fields, error) {
	stream, err := client.open(client, client.calls, bothWays, "/s/Echo", nil)
	if err != nil {
		return nil, err
	}
	right := 0
	for index := 0; index < pingPongs; index++ {
		sent, answer := fmt.Sprintf("message %d", index), []byte(nil)
		if err := stream.SendMsg([]byte(sent)); err != nil {
			return nil, err
		}
		if err := stream.RecvMsg(&answer); err != nil {
			return nil, err
		}
		if string(answer) == sent {
			right++
		}
	}
	stream.CloseSend()
	more := 0
	result := end(rest(stream, func([]byte) { more++ }))
	result["right"], result["more"] = right, more
	return result, nil
}

// refused says how a call of each sort ends that the proxy answers itself.
func (client *rpcClient) refused() (fields, error) {
	result := fields{"unary": client.unary(client, "/s/Unary", []byte("abc"))}
	stream, err := client.open(client, client.calls, bothWays, "/s/Echo", nil)
	if err == nil {
		err = rest(stream, func([]byte) {})
	}
	result["stream"] = end(err)
	return result, nil
}

// pour reads one message of a flood, then a second flood to its end, and only then the rest of the first.
func (client *rpcClient) pour() (fields, error) {
	kind := grpc.StreamDesc{ServerStreams: true}
	slow, err := client.open(client, client.other, kind, "/s/Pour", []byte("slow"))
	if err != nil {
		return nil, err
	}
	slowHash, fastHash := sha256.New(), sha256.New()
	var first []byte
	if err := slow.RecvMsg(&first); err != nil {
		return nil, err
	}
	slowHash.Write(first)
	fast, err := client.open(client, client.calls, kind, "/s/Pour", []byte("fast"))
	if err != nil {
		return nil, err
	}
	if err := rest(fast, func(message []byte) { fastHash.Write(message) }); err != nil {
		return nil, err
	}
	meanwhile, err := strconv.Atoi(client.unary(client, "/s/Poured", nil)["answer"].(string))
	if err != nil {
		return nil, err
	}
	err = rest(slow, func(message []byte) { slowHash.Write(message) })
	return fields{
		"fast": fmt.Sprintf("%x", fastHash.Sum(nil)), "slow": fmt.Sprintf("%x", slowHash.Sum(nil)),
		"slow_messages_meanwhile": meanwhile,
	}, err
}

// take sends a flood that the server does not read, and beside it another that it reads to its end. Then the first is
// released.
func (client *rpcClient) take() (fields, error) {
	kind := grpc.StreamDesc{ClientStreams: true}
	ctx := metadata.AppendToOutgoingContext(client, "x-name", "slow")
	slow, err := client.open(ctx, client.other, kind, "/s/Take", nil)
	if err != nil {
		return nil, err
	}
	var gone int64
	sent := make(chan error, 1)
	go func() {
		err := flood(func(message []byte) error {
			err := slow.SendMsg(message)
			atomic.AddInt64(&gone, 1)
			return err
		})
		slow.CloseSend()
		sent <- err
	}()
	// The server has it.
	if _, err := slow.Header(); err != nil {
		return nil, err
	}
	fast, err := client.open(client, client.calls, kind, "/s/Take", nil)
	if err != nil {
		return nil, err
	}
	if err := flood(func(message []byte) error { return fast.SendMsg(message) }); err != nil {
		return nil, err
	}
	fast.CloseSend()
	var fastDigest, slowDigest []byte
	if err := fast.RecvMsg(&fastDigest); err != nil {
		return nil, err
	}
	meanwhile := atomic.LoadInt64(&gone)
	released := client.unary(client, "/s/Release", nil)
	if err := slow.RecvMsg(&slowDigest); err != nil {
		return nil, err
	}
	return fields{
		"fast": string(fastDigest), "slow": string(slowDigest), "slow_messages_meanwhile": meanwhile,
		"released": released["code"],
	}, <-sent
}
