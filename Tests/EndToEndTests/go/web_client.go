// The client of net/http. Whether it speaks HTTP/2 is up to GODEBUG=http2client=0.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

const largeSize = 64 << 20
const crowd = 100

type webClient struct {
	http.Client
	context.Context
	base string
}

func askWeb(ctx context.Context, arguments []string) (fields, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = http.ProxyFromEnvironment
	transport.ForceAttemptHTTP2 = true
	client := &webClient{http.Client{Transport: transport}, ctx, "https://" + arguments[0]}
	switch task := arguments[1]; task {
	case "get":
		return client.exchange("GET", "/hello", nil, nil)
	case "post":
		return client.exchange("POST", "/digest", strings.NewReader("what is posted"), nil)
	case "trailers":
		return client.exchange("POST", "/trailers", io.MultiReader(strings.NewReader("in pieces")), trailer)
	case "crowd":
		return client.crowd()
	case "download":
		return client.download()
	case "upload":
		// Its length is unknown to net/http, so it goes in chunks or in frames without a Content-Length.
		return client.exchange("POST", "/digest", content(largeSize), nil)
	case "cancel":
		return client.cancel()
	default:
		return nil, fmt.Errorf("unknown task: %s", task)
	}
}

// trailer announces one, and says that the client takes those of the answer.
func trailer(request *http.Request) {
	request.Header.Set("TE", "trailers")
	request.Trailer = http.Header{"X-Sum": {"of the client"}}
}

func (client *webClient) send(method, path string, body io.Reader, change func(*http.Request)) (*http.Response, error) {
	request, err := http.NewRequestWithContext(client, method, client.base+path, body)
	if err != nil {
		return nil, err
	}
	if change != nil {
		change(request)
	}
	return client.Do(request)
}

// facts are those of an answer's head.
func facts(answer *http.Response) fields {
	return fields{
		"status": answer.StatusCode, "protocol": answer.Proto,
		"origin_protocol": answer.Header.Get("X-Protocol"), "peer": answer.Header.Get("X-Peer"),
	}
}

func (client *webClient) exchange(method, path string, body io.Reader, change func(*http.Request)) (fields, error) {
	answer, err := client.send(method, path, body, change)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	result := facts(answer)
	result["body"], result["trailers"] = string(text), answer.Trailer
	return result, err
}

func (client *webClient) download() (fields, error) {
	answer, err := client.send("GET", fmt.Sprintf("/content?n=%d", largeSize), nil, nil)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	hash := sha256.New()
	size, err := io.Copy(hash, answer.Body)
	result := facts(answer)
	result["size"], result["digest"] = size, fmt.Sprintf("%x", hash.Sum(nil))
	return result, err
}

// crowd begins all requests at once. The server answers none before it has them all.
func (client *webClient) crowd() (fields, error) {
	client.Transport.(*http.Transport).MaxIdleConnsPerHost = crowd
	var wait sync.WaitGroup
	answers, failures := make([]fields, crowd), make([]error, crowd)
	for index := range answers {
		wait.Add(1)
		go func(index int) {
			defer wait.Done()
			body := strings.NewReader(fmt.Sprint(index))
			answers[index], failures[index] = client.exchange("POST", fmt.Sprintf("/meet?n=%d", crowd), body, nil)
		}(index)
	}
	wait.Wait()
	for _, failure := range failures {
		if failure != nil {
			return nil, failure
		}
	}
	return fields{"answers": answers}, nil
}

// cancel gives two requests up when a line comes on stdin. Of one, the answer has begun. The client must be as good as
// before.
func (client *webClient) cancel() (fields, error) {
	before, err := client.exchange("GET", "/hello", nil, nil)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(client)
	defer cancel()
	given := &webClient{client.Client, ctx, client.base}
	silent := make(chan error, 1)
	go func() {
		_, err := given.send("GET", "/stay", nil, nil)
		silent <- err
	}()
	answer, err := given.send("GET", "/stay?head", nil, nil)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	begun := make([]byte, len("begun"))
	if _, err := io.ReadFull(answer.Body, begun); err != nil {
		return nil, err
	}
	awaitStdin()
	cancel()
	_, loud := io.ReadAll(answer.Body)
	quiet := <-silent
	after, err := client.exchange("GET", "/hello", nil, nil)
	return fields{
		"before": before, "after": after, "begun": string(begun), "errors": fmt.Sprint(loud, "; ", quiet),
		"cancelled": []bool{errors.Is(loud, context.Canceled), errors.Is(quiet, context.Canceled)},
	}, err
}
