// Package certs has the certificates that HTTPS is served with: files of the site's,
// read again when they change, or such as an ACME server gives (RFC 8555).
package certs
