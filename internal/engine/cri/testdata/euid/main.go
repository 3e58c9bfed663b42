// Euid prints with which user's rights it runs. (Busybox's programs give up those of a
// setuid program before they could tell.)
package main

import (
	"fmt"
	"os"
)

func main() { fmt.Println(os.Geteuid()) }
