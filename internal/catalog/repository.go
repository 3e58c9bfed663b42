package catalog

// Repository is one of images that was pulled from with somebody's credentials. What is
// on the machine of it is for those alone whom its registry lets have it.
type Repository struct {
	Name  string // with its registry, as workload.Repository has it
	Since int64  // ns
}

// Private reports whether a repository is one of those.
func (s *State) Private(repository string) bool {
	_, ok := s.Repositories.Get(repository)
	return ok
}
