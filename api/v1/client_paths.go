package v1

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
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
	out := new(Page[T])
	if err := c.call(ctx, http.MethodGet, path, query, nil, out); err != nil {
		return nil, err
	}
	if out.Items == nil {
		out.Items = []T{}
	}
	return out, nil
}

// pages goes through the items of all pages from cursor on.
func pages[T any](cursor string, page func(cursor string) (*Page[T], error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for next := cursor; ; {
			p, err := page(next)
			if err != nil {
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
			if p.Next == "" || p.Next == next {
				return
			}
			next = p.Next
		}
	}
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
