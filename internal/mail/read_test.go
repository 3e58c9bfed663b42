package mail_test

import (
	"io"
	"mime"
	"mime/quotedprintable"
)

var wordDecoder = new(mime.WordDecoder)

func quoted(r io.Reader) io.Reader { return quotedprintable.NewReader(r) }
