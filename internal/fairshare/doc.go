// Package fairshare says who has had less than his share of the machine, and who
// more: what everybody has used, fading with time, is compared with weights along
// the tree of accounts. The ranking is the one of Slurm's Fair Tree by R. Cox and
// L. Morrison (https://slurm.schedmd.com/fair_tree.html), here over whole numbers.
package fairshare
