package httpapi

import (
	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/quantity"
)

func (c *call) reservations() (v1.Page[v1.Reservation], error) {
	return page(c.Reader.Reservations(c.p), nil)
}

func (c *call) reservation() (v1.Reservation, error) {
	return c.Reader.Reservation(c.p, c.path("name"))
}

func (c *call) createReservation(in v1.NewReservation) (v1.Reservation, error) {
	cmd, err := reservationOf(in)
	if err != nil {
		return v1.Reservation{}, err
	}
	got, err := c.do(cmd)
	if err != nil {
		return v1.Reservation{}, err
	}
	if got.Replayed != nil {
		made, err := c.Reader.Reservation(c.p, in.Name)
		return before(made, err == nil)
	}
	made, ok := got.Result.(command.Reserved)
	if !ok {
		return v1.Reservation{}, unexpected(got)
	}
	return c.Reader.Reserved(c.p, made.Row, made.Bookings, made.Cost), nil
}

// reservationOf reads the amounts and times of a request.
func reservationOf(in v1.NewReservation) (command.ReservationPut, error) {
	cmd := command.ReservationPut{
		Name: in.Name, Partition: in.Partition, Accounts: in.Accounts, Users: in.Users, Payer: in.Payer,
		Count: in.Count, Model: in.Model, Where: in.Where, Nodes: in.Nodes, Join: in.Join, Each: in.Each, Images: in.Images, Reason: in.Reason, DryRun: in.DryRun,
	}
	var bad fault.Fields
	read := func(to *int64, field string, q v1.Quantity, parse func(string) (int64, error), hint string) {
		var err error
		if q == "" {
			return
		}
		if *to, err = parse(string(q)); err != nil {
			bad.Add(field, "must be %s", hint)
		}
	}
	read(&cmd.CPU, "cpu", in.CPU, quantity.ParseCPU, "cores, e.g. 8 or 0.5")
	read(&cmd.Mem, "mem", in.Mem, quantity.ParseBytes, "an amount such as 64G")
	read(&cmd.GPU, "gpu", in.GPU, quantity.ParseDevices, "a whole number of devices")
	read(&cmd.Length, "length", in.Length, quantity.ParseDuration, "a time such as 90m or 2h")
	var err error
	if cmd.From, err = moment("from", in.From); err != nil {
		return cmd, err
	}
	if cmd.To, err = moment("to", in.To); err != nil {
		return cmd, err
	}
	if cmd.Until, err = moment("until", in.Until); err != nil {
		return cmd, err
	}
	if (in.To == nil) == (in.Length == "") {
		bad.Add("to", "give either to or length")
	}
	var known bool
	if cmd.Repeat, known = placement.ParseRepeat(in.Every); !known {
		bad.Add("every", "must be day, weekdays or days as mon,wed")
	}
	return cmd, bad.Err()
}

func (c *call) cancelReservation() error {
	cmd := command.ReservationCancel{Name: c.path("name")}
	if w := c.r.URL.Query().Get("window"); w != "" {
		n, err := rowID("window", w)
		if err != nil {
			return err
		}
		cmd.Window = id.Booking(n)
	}
	_, err := c.do(cmd)
	return err
}
