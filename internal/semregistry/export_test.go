package semregistry

import "context"

// Peek reads an entry and declares nothing.
func (r *Registry) Peek(ctx context.Context, name string) (Entry, error) {
	return r.table.get(ctx, name)
}

// IsRight reports whether the definition in Redis matches an entry.
func (r *Registry) IsRight(ctx context.Context, e Entry) (bool, error) {
	known, err := r.inRedis(ctx, &e)
	return known == right, err
}
