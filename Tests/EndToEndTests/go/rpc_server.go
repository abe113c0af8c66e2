// The server of gRPC. Its methods up to Waits are those of the server in Python as well (test_http2.py, Calls).
package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// A flood is so many messages of this size: 64 MiB.
const floodMessages = 1024
const floodMessage = 64 << 10

type rpcServer struct {
	poured   int64         // messages that the slow flood has been sent
	released chan struct{} // the slow upload is read on
}

type unaryMethod func(*rpcServer, context.Context, []byte) ([]byte, error)

var service = grpc.ServiceDesc{
	ServiceName: "s",
	HandlerType: (*interface{})(nil),
	Methods: []grpc.MethodDesc{
		unary("Unary", (*rpcServer).unary),
		unary("Fails", (*rpcServer).fails),
		unary("Waits", (*rpcServer).waits),
		unary("Poured", (*rpcServer).howMuchIsPoured),
		unary("Release", (*rpcServer).release),
	},
	Streams: []grpc.StreamDesc{
		{StreamName: "Server", ServerStreams: true, Handler: streamed((*rpcServer).server)},
		{StreamName: "Client", ClientStreams: true, Handler: streamed((*rpcServer).client)},
		{StreamName: "Echo", ServerStreams: true, ClientStreams: true, Handler: streamed((*rpcServer).echo)},
		{StreamName: "Pour", ServerStreams: true, Handler: streamed((*rpcServer).pour)},
		{StreamName: "Take", ClientStreams: true, Handler: streamed((*rpcServer).take)},
	},
}

func serveRPC(listener net.Listener, certificate tls.Certificate) error {
	server := grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(&certificate)))
	server.RegisterService(&service, &rpcServer{released: make(chan struct{})})
	return server.Serve(listener)
}

// unary spells a method as the generated code would.
func unary(name string, method unaryMethod) grpc.MethodDesc {
	handler := func(
		server interface{}, ctx context.Context, decode func(interface{}) error, _ grpc.UnaryServerInterceptor,
	) (interface{}, error) {
		var request []byte
		if err := decode(&request); err != nil {
			return nil, err
		}
		return method(server.(*rpcServer), ctx, request)
	}
	return grpc.MethodDesc{MethodName: name, Handler: handler}
}

func streamed(method func(*rpcServer, grpc.ServerStream) error) grpc.StreamHandler {
	return func(server interface{}, stream grpc.ServerStream) error {
		return method(server.(*rpcServer), stream)
	}
}

// each calls for every message until the client has said that it is done.
func each(stream grpc.ServerStream, do func([]byte) error) error {
	for {
		var message []byte
		if err := stream.RecvMsg(&message); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := do(message); err != nil {
			return err
		}
	}
}

// Calls of every kind

func (*rpcServer) unary(ctx context.Context, request []byte) ([]byte, error) {
	answer := make([]byte, len(request))
	for index, value := range request {
		answer[len(request)-1-index] = value
	}
	return answer, grpc.SetTrailer(ctx, metadata.Pairs("x-sum", strconv.Itoa(len(request))))
}

func (*rpcServer) fails(ctx context.Context, _ []byte) ([]byte, error) {
	grpc.SetTrailer(ctx, metadata.Pairs("x-why", "gone", "x-why-bin", "\x00\xff"))
	return nil, status.Error(codes.NotFound, "nö %")
}

func (*rpcServer) waits(ctx context.Context, _ []byte) ([]byte, error) {
	limit := int64(-1)
	if deadline, ok := ctx.Deadline(); ok {
		limit = time.Until(deadline).Milliseconds()
	}
	say(fields{"event": "began", "limit": limit})
	<-ctx.Done()
	say(fields{"event": "left", "why": ctx.Err().Error()})
	// The clock of the server may end a call before that of the client.
	return nil, status.FromContextError(ctx.Err()).Err()
}

func (*rpcServer) server(stream grpc.ServerStream) error {
	var request []byte
	if err := stream.RecvMsg(&request); err != nil {
		return err
	}
	number, err := strconv.Atoi(string(request))
	for index := 0; err == nil && index < number; index++ {
		err = stream.SendMsg([]byte(strconv.Itoa(index)))
	}
	return err
}

func (*rpcServer) client(stream grpc.ServerStream) error {
	sum := 0
	err := each(stream, func(message []byte) error {
		sum += len(message)
		return nil
	})
	if err != nil {
		return err
	}
	return stream.SendMsg([]byte(strconv.Itoa(sum)))
}

func (*rpcServer) echo(stream grpc.ServerStream) error {
	return each(stream, func(message []byte) error { return stream.SendMsg(message) })
}

// Floods

// pour sends a flood, and counts what has gone of the one that is called slow.
func (server *rpcServer) pour(stream grpc.ServerStream) error {
	var name []byte
	if err := stream.RecvMsg(&name); err != nil {
		return err
	}
	return flood(func(message []byte) error {
		if err := stream.SendMsg(message); err != nil {
			return err
		}
		if string(name) == "slow" {
			atomic.AddInt64(&server.poured, 1)
		}
		return nil
	})
}

func flood(send func([]byte) error) error {
	from := content(floodMessages * floodMessage)
	for index := 0; index < floodMessages; index++ {
		message := make([]byte, floodMessage)
		if _, err := io.ReadFull(from, message); err != nil {
			return err
		}
		if err := send(message); err != nil {
			return err
		}
	}
	return nil
}

func (server *rpcServer) howMuchIsPoured(context.Context, []byte) ([]byte, error) {
	return []byte(strconv.FormatInt(atomic.LoadInt64(&server.poured), 10)), nil
}

// take hashes a flood. Of the one that is called slow it reads a message, and the others when it is released.
func (server *rpcServer) take(stream grpc.ServerStream) error {
	known, _ := metadata.FromIncomingContext(stream.Context())
	slow := len(known.Get("x-name")) == 1 && known.Get("x-name")[0] == "slow"
	hash := sha256.New()
	err := each(stream, func(message []byte) error {
		hash.Write(message)
		if !slow {
			return nil
		}
		if err := stream.SendHeader(nil); err != nil {
			return err
		}
		slow = false
		select {
		case <-server.released:
			return nil
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	})
	if err != nil {
		return err
	}
	return stream.SendMsg([]byte(fmt.Sprintf("%x", hash.Sum(nil))))
}

func (server *rpcServer) release(context.Context, []byte) ([]byte, error) {
	close(server.released)
	return nil, nil
}
