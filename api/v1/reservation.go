package v1

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// Reservation is resources set aside for accounts and users over a window, or over one
// that comes again.
type Reservation struct {
	Name      string              `json:"name"`
	Partition string              `json:"partition"`
	State     string              `json:"state" doc:"active while a window of it lasts, else planned"`
	Accounts  []string            `json:"accounts,omitempty" doc:"whose jobs may run in it, of those that you may see"`
	Users     []string            `json:"users,omitempty" doc:"likewise"`
	Payer     string              `json:"payer,omitempty" doc:"account that pays for devices which nobody uses"`
	Count     int64               `json:"count,omitempty" doc:"places, each on one node, of these amounts:"`
	CPU       Quantity            `json:"cpu,omitempty"`
	Mem       Quantity            `json:"mem,omitempty"`
	GPU       Quantity            `json:"gpu,omitempty"`
	Model     string              `json:"model,omitempty"`
	Where     string              `json:"constraint,omitempty"`
	Nodes     []string            `json:"nodes,omitempty" doc:"or these nodes whole"`
	From      time.Time           `json:"from" doc:"begin of the first window"`
	Length    Quantity            `json:"length" doc:"of each"`
	Every     string              `json:"every,omitempty" doc:"day, weekdays or days as mon,wed"`
	At        string              `json:"at,omitempty" doc:"of one that comes again: when its windows begin by the site's clocks, as 14:00"`
	Until     *time.Time          `json:"until,omitempty" doc:"no window begins after it"`
	Join      bool                `json:"join,omitempty" doc:"takes in what its people submit during a window and that fits, unless a job says reservation none"`
	Each      int64               `json:"each,omitempty" doc:"so many jobs of each user run in it at once; 0: any number"`
	Images    []ReservationImage  `json:"images,omitempty" doc:"fetched half an hour before a window begins"`
	Reason    string              `json:"reason,omitempty"`
	By        string              `json:"by,omitempty"`
	Windows   []ReservationWindow `json:"windows" doc:"those that are booked"`
	Running   int64               `json:"running" doc:"jobs in it"`
	Waiting   int64               `json:"waiting"`
	Cost      string              `json:"cost,omitempty" doc:"of the booked devices, if nobody uses any; when it is made"`
}

// ReservationImage is an image that a reservation's jobs are going to run.
type ReservationImage struct {
	Image string `json:"image"`
	State string `json:"state,omitempty" doc:"ready, pulling 40%, or what is in the way; nothing while it isn't looked for"`
}

// ReservationWindow is a window of a reservation.
type ReservationWindow struct {
	ID     string            `json:"id,omitempty"`
	From   time.Time         `json:"from"`
	To     time.Time         `json:"to"`
	State  string            `json:"state" doc:"planned, active, or failed: it couldn't be booked"`
	Reason string            `json:"reason,omitempty" doc:"why it couldn't"`
	Parts  []ReservationPart `json:"parts,omitempty"`
}

// ReservationPart is what a window has of a node.
type ReservationPart struct {
	Node   string           `json:"node"`
	CPU    Quantity         `json:"cpu"`
	Mem    Quantity         `json:"mem"`
	Models map[string]int64 `json:"models,omitempty" doc:"model to number of devices"`
}

// NewReservation makes a reservation.
type NewReservation struct {
	Name      string     `json:"name"`
	Partition string     `json:"partition,omitempty" doc:"by default the default one"`
	Accounts  []string   `json:"accounts,omitempty" doc:"with all below them"`
	Users     []string   `json:"users,omitempty"`
	Payer     string     `json:"payer,omitempty" doc:"account that pays for devices which nobody uses; by default the only account"`
	Count     int64      `json:"count,omitempty" doc:"places of these amounts, each on one node; by default 1"`
	CPU       Quantity   `json:"cpu,omitempty" doc:"by default what a job gets, times the devices"`
	Mem       Quantity   `json:"mem,omitempty" doc:"likewise"`
	GPU       Quantity   `json:"gpu,omitempty"`
	Model     string     `json:"model,omitempty"`
	Where     string     `json:"constraint,omitempty"`
	Nodes     []string   `json:"nodes,omitempty" doc:"or these nodes whole"`
	From      *time.Time `json:"from,omitempty" doc:"by default now"`
	To        *time.Time `json:"to,omitempty"`
	Length    Quantity   `json:"length,omitempty" doc:"instead of to"`
	Every     string     `json:"every,omitempty" doc:"day, weekdays or days as mon,wed, in the site's time zone"`
	Until     *time.Time `json:"until,omitempty" doc:"no window begins after it"`
	Join      bool       `json:"join,omitempty" doc:"take in what its people submit during a window and that fits"`
	Each      int64      `json:"each,omitempty" doc:"so many jobs of each user at once; 0: any number"`
	Images    []string   `json:"images,omitempty" doc:"to be fetched before a window begins"`
	Reason    string     `json:"reason,omitempty"`
	DryRun    bool       `json:"dry_run,omitempty" doc:"say what it would be, and make nothing"`
}

// Reservations goes through the reservations that the caller may see.
func (c *Client) Reservations(ctx context.Context) iter.Seq2[Reservation, error] {
	return pages[Reservation](ctx, c, "/v1/reservations", url.Values{})
}

// Reservation returns one.
func (c *Client) Reservation(ctx context.Context, name string) (*Reservation, error) {
	return get[Reservation](ctx, c, "reservation", name, "/v1/reservations/%s", nil)
}

// AddReservation makes a reservation.
func (c *Client) AddReservation(ctx context.Context, r NewReservation, opts ...Option) (*Reservation, error) {
	return post[Reservation](ctx, c, "/v1/reservations", r, opts...)
}

// RemoveReservation cancels a reservation or, if one is named, a window of it.
func (c *Client) RemoveReservation(ctx context.Context, name, window string) error {
	query := url.Values{}
	if window != "" {
		query.Set("window", window)
	}
	return named(ctx, c, http.MethodDelete, "reservation", name, "/v1/reservations/%s", query, nil, nil)
}
