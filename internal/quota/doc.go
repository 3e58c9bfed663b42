// Package quota asks file systems what is used of them, and has them bound it: by user, and
// by project for a folder whoever writes in it. The kernel counts and enforces; nothing is
// kept here. It is for ext4 and XFS, whose quotas Linux has one interface for.
package quota
