package v1

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// values builds a query of the pairs whose value isn't empty.
func values(pairs ...string) url.Values {
	v := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			v.Set(pairs[i], pairs[i+1])
		}
	}
	return v
}

// count is n for a query, where 0 means the server's default.
func count(n int) string {
	if n <= 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// named calls a path that has one name in it, where format says.
func named(ctx context.Context, c *Client, method, kind, name, format string, query url.Values, body, out any, opts ...Option) error {
	seg, err := segment(kind, name)
	if err != nil {
		return err
	}
	return c.call(ctx, method, fmt.Sprintf(format, seg), query, body, out, opts...)
}

// get returns the thing of that kind and name.
func get[T any](ctx context.Context, c *Client, kind, name, format string, query url.Values) (*T, error) {
	out := new(T)
	if err := named(ctx, c, http.MethodGet, kind, name, format, query, nil, out); err != nil {
		return nil, err
	}
	return out, nil
}

// postTo acts on the thing of that kind and name.
func postTo[T any](ctx context.Context, c *Client, kind, name, format string, body any, opts ...Option) (*T, error) {
	out := new(T)
	if err := named(ctx, c, http.MethodPost, kind, name, format, nil, body, out, opts...); err != nil {
		return nil, err
	}
	return out, nil
}

// patch changes the thing of that kind and name.
func patch[T any](ctx context.Context, c *Client, kind, name, format string, body any) (*T, error) {
	out := new(T)
	if err := named(ctx, c, http.MethodPatch, kind, name, format, nil, body, out); err != nil {
		return nil, err
	}
	return out, nil
}

// fetch returns a thing that has no name of its own.
func fetch[T any](ctx context.Context, c *Client, path string) (*T, error) {
	out := new(T)
	if err := c.call(ctx, http.MethodGet, path, nil, nil, out); err != nil {
		return nil, err
	}
	return out, nil
}

// list returns one page.
func list[T any](ctx context.Context, c *Client, path string, query url.Values) (*Page[T], error) {
	out := &Page[T]{Items: []T{}}
	if err := out.read(ctx, c, <-c.ask(ctx, path, query)); err != nil {
		return nil, err
	}
	return out, nil
}

// read makes p what was answered. It uses the room that p has.
func (p *Page[T]) read(ctx context.Context, c *Client, a answered) error {
	if a.err != nil {
		return a.err
	}
	clear(p.Items) // what an answer leaves out is left as it was
	p.Items, p.Next = p.Items[:0], ""
	return c.read(ctx, a.resp, p)
}

// pages goes through the items of all pages from the query's cursor on. From the second
// page on, the next is asked for as soon as the header of an answer says where it is, so
// that the server makes it while this one is read. Whoever has seen enough in the first
// has the server make no other.
func pages[T any](ctx context.Context, c *Client, path string, query url.Values) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		next := c.ask(ctx, path, query)
		defer func() {
			cancel()
			next.drop()
		}()
		var p Page[T]
		for at, first := query.Get("cursor"), true; ; first = false {
			answered := <-next
			next = nil
			follows := following(answered.resp)
			if !first && follows != "" && follows != at {
				next = c.ask(ctx, path, onward(query, follows))
			}
			if err := p.read(ctx, c, answered); err != nil {
				var zero T
				yield(zero, err)
				return
			}
			for _, item := range p.Items {
				if !yield(item, nil) {
					return
				}
			}
			// A server that answers with the cursor it was given would be asked
			// forever.
			if follows = cmp.Or(follows, p.Next); follows == "" || follows == at {
				return
			}
			if at = follows; next == nil {
				next = c.ask(ctx, path, onward(query, at))
			}
		}
	}
}

// onward is the same question from another place on.
func onward(query url.Values, cursor string) url.Values {
	out := url.Values{"cursor": {cursor}}
	for k, v := range query {
		if k != "cursor" {
			out[k] = v
		}
	}
	return out
}

// answered is an answer of which the header has come, or that there was none.
type answered struct {
	resp *http.Response
	err  error
}

// pending is a request under way; nil: none.
type pending chan answered

// ask sends a request and doesn't wait for its answer.
func (c *Client) ask(ctx context.Context, path string, query url.Values) pending {
	out := make(pending, 1)
	go func() {
		resp, err := c.send(ctx, http.MethodGet, path, query, nil)
		out <- answered{resp, err}
	}()
	return out
}

// drop gives up a request whose context has ended.
func (p pending) drop() {
	if p == nil {
		return
	}
	if a := <-p; a.err == nil {
		_ = a.resp.Body.Close()
	}
}

// following is the cursor of the page that an answer's header says is the next one
// (RFC 8288); empty if it says nothing of that.
func following(resp *http.Response) string {
	if resp == nil {
		return ""
	}
	for _, link := range resp.Header.Values("Link") {
		target, isNext := strings.CutSuffix(link, `>; rel="next"`)
		if u, err := url.Parse(strings.TrimPrefix(target, "<")); isNext && err == nil {
			return u.Query().Get("cursor")
		}
	}
	return ""
}

// Collect gathers all items of a listing, or the first error.
func Collect[T any](seq iter.Seq2[T, error]) ([]T, error) {
	items := []T{}
	for item, err := range seq {
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}
