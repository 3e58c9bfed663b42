package v1

import (
	"context"
	"iter"
	"net/http"
	"net/url"
)

// Partitions goes through the partitions.
func (c *Client) Partitions(ctx context.Context) iter.Seq2[Partition, error] {
	return pages[Partition](ctx, c, "/v1/partitions", url.Values{})
}

// Partition returns a partition.
func (c *Client) Partition(ctx context.Context, name string) (*Partition, error) {
	return get[Partition](ctx, c, "partition", name, "/v1/partitions/%s", nil)
}

// AddPartition makes a partition.
func (c *Client) AddPartition(ctx context.Context, p NewPartition, opts ...Option) (*Partition, error) {
	return post[Partition](ctx, c, "/v1/partitions", p, opts...)
}

// SetPartition changes a partition.
func (c *Client) SetPartition(ctx context.Context, name string, p PartitionPatch) (*Partition, error) {
	return patch[Partition](ctx, c, "partition", name, "/v1/partitions/%s", p)
}

// RemovePartition removes a partition that nothing uses. Its nodes stay.
func (c *Client) RemovePartition(ctx context.Context, name string) error {
	return named(ctx, c, http.MethodDelete, "partition", name, "/v1/partitions/%s", nil, nil, nil)
}

// QoSList goes through the qualities of service.
func (c *Client) QoSList(ctx context.Context) iter.Seq2[QoS, error] {
	return pages[QoS](ctx, c, "/v1/qos", url.Values{})
}

// QoS returns a quality of service.
func (c *Client) QoS(ctx context.Context, name string) (*QoS, error) {
	return get[QoS](ctx, c, "QoS", name, "/v1/qos/%s", nil)
}

// AddQoS makes a quality of service.
func (c *Client) AddQoS(ctx context.Context, q NewQoS, opts ...Option) (*QoS, error) {
	return post[QoS](ctx, c, "/v1/qos", q, opts...)
}

// SetQoS changes a quality of service.
func (c *Client) SetQoS(ctx context.Context, name string, p QoSPatch) (*QoS, error) {
	return patch[QoS](ctx, c, "QoS", name, "/v1/qos/%s", p)
}

// RemoveQoS removes a quality of service that nothing uses.
func (c *Client) RemoveQoS(ctx context.Context, name string) error {
	return named(ctx, c, http.MethodDelete, "QoS", name, "/v1/qos/%s", nil, nil, nil)
}
