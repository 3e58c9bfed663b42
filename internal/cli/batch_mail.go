package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	v1 "croft.dev/croft/api/v1"
)

// mailFlags registers the flags of mail about a job.
func (o *batchOptions) mailFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.mailType, "mail-type", "", "mail at BEGIN,END,FAIL,REQUEUE,TIME_LIMIT,ARRAY_TASKS,ALL")
	fs.StringVar(&o.mailUser, "mail-user", "", "address that it goes to, by default your own")
}

// unmailed are words of Slurm's for what doesn't come about here.
var unmailed = []string{"stage_out", "time_limit_50", "time_limit_80", "time_limit_90"}

// mail sets what mail is sent about the job. A word for what doesn't come about here is
// passed over, and that is said.
func (o *batchOptions) mail(a *app, spec *v1.JobSpec) {
	spec.MailUser = o.mailUser
	var words []string
	for word := range strings.SplitSeq(strings.ToLower(o.mailType), ",") {
		switch word = strings.TrimSpace(word); {
		case word == "":
		case slices.Contains(unmailed, word):
			fmt.Fprintf(a.env.Stderr, "--mail-type %s isn't used here\n", strings.ToUpper(word))
		case word == "invalid_depend":
			words = append(words, "end") // which such a job does at once
		default:
			words = append(words, word)
		}
	}
	spec.MailType = strings.Join(words, ",")
}
