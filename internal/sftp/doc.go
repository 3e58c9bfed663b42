// Package sftp serves files to an SFTP client, version 3 with OpenSSH's extensions
// (draft-ietf-secsh-filexfer-02; PROTOCOL in OpenSSH's source). It does what whoever runs
// it may do, and no more: it runs in a job's container as its user, and is part of
// croft-init, so that any image has it.
package sftp
