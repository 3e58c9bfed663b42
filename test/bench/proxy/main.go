// Command proxy is what gateways are measured with: a small web server, "serve ADDR", a bare
// httputil.ReverseProxy to it, "hand ADDR URL", what waits for either, "await URL", and a client
// that echoes over WebSockets, "echo URL CONNECTIONS SECONDS [HEADER VALUE]…", and prints
// echoes a second and the 99th percentile in microseconds.
package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/coder/websocket"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "proxy:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 2 && args[0] == "serve" {
		return http.ListenAndServe(args[1], server())
	}
	if len(args) == 3 && args[0] == "hand" {
		return hand(args[1], args[2])
	}
	if len(args) == 2 && args[0] == "await" {
		return await(args[1])
	}
	if len(args) < 4 || args[0] != "echo" || len(args)%2 != 0 {
		return fmt.Errorf("serve ADDR, hand ADDR URL, await URL, or echo URL CONNECTIONS SECONDS [HEADER VALUE]…")
	}
	n, err1 := strconv.Atoi(args[2])
	seconds, err2 := strconv.Atoi(args[3])
	if err1 != nil || err2 != nil {
		return fmt.Errorf("%q and %q must be numbers", args[2], args[3])
	}
	header := http.Header{}
	for i := 4; i < len(args); i += 2 {
		header.Set(args[i], args[i+1])
	}
	return echo(args[1], n, time.Duration(seconds)*time.Second, header)
}

// server answers with a kilobyte, and at /ws with what it is sent.
func server() http.Handler {
	body := bytes.Repeat([]byte("x"), 1024)
	mux := http.NewServeMux()
	mux.HandleFunc("/ws", func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
		if err != nil {
			return
		}
		defer c.CloseNow() //nolint:errcheck // a client that went away
		for {
			kind, b, err := c.Read(r.Context())
			if err != nil || c.Write(r.Context(), kind, b) != nil {
				return
			}
		}
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = w.Write(body) // a client that went away
	})
	return mux
}

// hand hands on what it is asked, as Go's library does: without looking who comes.
func hand(addr, to string) error {
	target, err := url.Parse(to)
	if err != nil {
		return err
	}
	return http.ListenAndServe(addr, &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: &http.Transport{MaxIdleConnsPerHost: 128},
	})
}

// await waits until a server answers.
func await(url string) error {
	var err error
	for range 100 {
		var r *http.Response
		if r, err = http.Get(url); err == nil {
			return r.Body.Close()
		}
		<-time.After(100 * time.Millisecond)
	}
	return err
}

// echo sends a message on each of n connections, and the next one when it is back.
func echo(url string, n int, span time.Duration, header http.Header) error {
	ctx, cancel := context.WithTimeout(context.Background(), span+time.Minute)
	defer cancel()
	conns := make([]*websocket.Conn, n)
	for i := range conns {
		var err error
		if conns[i], _, err = websocket.Dial(ctx, url, &websocket.DialOptions{HTTPHeader: header, Host: header.Get("Host")}); err != nil {
			return err
		}
	}
	message := bytes.Repeat([]byte("m"), 64)
	took := make([][]time.Duration, n)
	begin := time.Now()
	var all sync.WaitGroup
	for i, c := range conns {
		all.Go(func() {
			for time.Since(begin) < span {
				at := time.Now()
				if c.Write(ctx, websocket.MessageText, message) != nil {
					return
				}
				if _, _, err := c.Read(ctx); err != nil {
					return
				}
				took[i] = append(took[i], time.Since(at))
			}
		})
	}
	all.Wait()
	total := time.Since(begin)
	flat := slices.Concat(took...)
	if len(flat) == 0 {
		return fmt.Errorf("nothing came back")
	}
	slices.Sort(flat)
	fmt.Println(int64(float64(len(flat))/total.Seconds()), flat[(len(flat)-1)*99/100].Microseconds())
	return nil
}
