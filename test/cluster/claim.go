package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Share makes a claim of a folder of this machine, which all nodes have, and waits until it is
// bound. The mode is an access mode, such as ReadWriteMany. The folder is left alone.
func (c *Cluster) Share(ctx context.Context, namespace, claim, dir, mode string) error {
	volume := namespace + "-" + claim
	for _, doc := range []string{
		fmt.Sprintf(`apiVersion: v1
kind: PersistentVolume
metadata:
  name: %s
spec:
  accessModes: [%s]
  capacity: {storage: 1Gi}
  claimRef: {namespace: %s, name: %s}
  hostPath: {path: %q, type: Directory}
  persistentVolumeReclaimPolicy: Retain
`, volume, mode, namespace, claim, dir),
		fmt.Sprintf(`apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: %s
  namespace: %s
spec:
  accessModes: [%s]
  resources: {requests: {storage: 1Gi}}
  storageClassName: ""
  volumeName: %s
`, claim, namespace, mode, volume),
	} {
		if err := c.apply(ctx, doc); err != nil {
			return err
		}
	}
	client, err := c.client()
	if err != nil {
		return err
	}
	return c.api.await(ctx, "the claim "+claim, func(ctx context.Context) error {
		text, err := fetch(ctx, client, "https://127.0.0.1:"+c.port+"/api/v1/namespaces/"+namespace+"/persistentvolumeclaims/"+claim)
		if err == nil && !strings.Contains(strings.Join(strings.Fields(text), ""), `"phase":"Bound"`) {
			err = errors.New("it isn't bound")
		}
		return err
	})
}
