package browser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// patience is how long a page may take for anything. Machines that test are slow.
const patience = 2 * time.Minute

// Browser is a Chromium with a profile of its own. Its pages share cookies, as those of
// a person's do.
type Browser struct {
	ctx    context.Context // of the process: chromedp keeps it there
	cancel context.CancelFunc
}

// Open starts a browser. Close it.
func Open(ctx context.Context) (*Browser, error) {
	path, err := exec.LookPath("chromium")
	if err != nil {
		return nil, fmt.Errorf("%w: run hack/setup --test", err)
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WindowSize(1280, 800),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))
	ctx, cancel := chromedp.NewExecAllocator(ctx, opts...)
	ctx, quit := chromedp.NewContext(ctx)
	b := &Browser{ctx, func() { quit(); cancel() }}
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
		b.Close()
		return nil, fmt.Errorf("starting chromium: %w", err)
	}
	return b, nil
}

// Close ends the browser.
func (b *Browser) Close() { b.cancel() }

// Page is a tab.
type Page struct{ ctx context.Context }

// Page opens a URL in a new tab and waits until it is loaded.
func (b *Browser) Page(url string) (*Page, error) {
	ctx, _ := chromedp.NewContext(b.ctx) // ends with the browser
	// A tab lives as long as the context of its first action: not one with a time-out.
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
		return nil, fmt.Errorf("opening a tab: %w", err)
	}
	p := &Page{ctx}
	if err := p.front(); err != nil {
		return nil, err
	}
	return p, p.Go(url)
}

// front makes the tab the one that is seen: others draw nothing and have no focus.
func (p *Page) front() error {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if _, err := chromedp.Call(ctx, page.BringToFront, cdp.Empty{}); err != nil {
		return fmt.Errorf("bringing a tab to the front: %w", err)
	}
	return nil
}

// Go opens a URL.
func (p *Page) Go(url string) error { return p.do("opening "+url, chromedp.Navigate(url)) }

// Reload loads the page again.
func (p *Page) Reload() error { return p.do("loading again", chromedp.Reload()) }

// Visible waits until an element is there to be seen.
func (p *Page) Visible(selector string) error {
	return p.do("waiting for "+selector, chromedp.WaitVisible(selector))
}

// VisibleWithin is Visible with a patience of its own.
func (p *Page) VisibleWithin(d time.Duration, selector string) error {
	ctx, cancel := context.WithTimeout(p.ctx, d)
	defer cancel()
	return (&Page{ctx}).Visible(selector)
}

// Click clicks on an element.
func (p *Page) Click(selector string) error {
	return p.do("clicking on "+selector, chromedp.Click(selector))
}

// Fill types a text into a field.
func (p *Page) Fill(selector, text string) error {
	return p.do("typing into "+selector, chromedp.SendKeys(selector, text))
}

// Keys types at whatever has the focus.
func (p *Page) Keys(text string, mods ...chromedp.KeyOption) error {
	if err := p.front(); err != nil {
		return err
	}
	return p.do("typing", chromedp.KeyEvent(text, append(mods, raw)...))
}

// raw makes of a key that goes down no more than that: its character is an event of its own,
// and Chromium would make one of both.
func raw(e *input.DispatchKeyEventParams) {
	if e.Type == input.DispatchKeyEventTypeKeyDown {
		e.Type = input.DispatchKeyEventTypeRawKeyDown
	}
}

// URL is where the page is now.
func (p *Page) URL() (string, error) { return ask(p, "asking for the address", chromedp.Location()) }

// Text is what an element shows.
func (p *Page) Text(selector string) (string, error) {
	return ask(p, "reading "+selector, chromedp.Text(selector))
}

// Await waits until a JavaScript expression is true. One that fails isn't true yet: the
// page may be on its way.
func (p *Page) Await(expression string) error {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	for {
		ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("(() => { try { return !!("+expression+") } catch { return false } })()"))
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("waiting for %s: %w", expression, ctx.Err()), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Eval is the value of a JavaScript expression, which may be a promise.
func Eval[T any](p *Page, expression string) (T, error) {
	return ask(p, "asking for "+expression, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// Screenshot writes what is seen to a PNG file in the directory that the environment
// variable CROFT_SCREENSHOTS names, if it does.
func (p *Page) Screenshot(name string) error {
	dir := os.Getenv("CROFT_SCREENSHOTS")
	if dir == "" {
		return nil
	}
	b, err := ask(p, "taking a picture", chromedp.FullScreenshot(100))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, strings.TrimSuffix(name, ".png")+".png"), b, 0o644)
}

func (p *Page) do(what string, a chromedp.Action[chromedp.Void]) error {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, a); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func ask[T any](p *Page, what string, a chromedp.Action[T]) (T, error) {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, a)
	if err != nil {
		return v, fmt.Errorf("%s: %w", what, err)
	}
	return v, nil
}
