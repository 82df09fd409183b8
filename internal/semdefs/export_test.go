package semdefs

import "context"

// Peek reads an entry and declares nothing.
func (r *Registry) Peek(ctx context.Context, name string) (Entry, bool, error) {
	return r.table.get(ctx, name)
}
