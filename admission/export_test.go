package admission

import (
	"context"
)

// Add and Erase are the operations that only other products' clients need.
func (g *Gate) Add(ctx context.Context, req Request) error { return counting{g}.Add(ctx, req) }

// Erase: see Add.
func (g *Gate) Erase(ctx context.Context, req Request, units map[string]int) error {
	return counting{g}.Erase(ctx, req, units)
}

// Holds reports whether the gate's rules match req.
func (g *Gate) Holds(req Request) bool {
	var p plan
	req = withDefaults(req)
	return p.fill(g.Rules().Plan, req) == nil && len(p.Checks) > 0
}

// SettleDenyCache waits until the deny cache has dropped what it has no room for.
func (g *Gate) SettleDenyCache() { g.denied.denials.CleanUp() }

// PendingRefusals returns how many counters have refusals that Run has yet to count.
func (g *Gate) PendingRefusals() int {
	g.denied.mu.Lock()
	defer g.denied.mu.Unlock()
	return len(g.denied.pending)
}

// SyncBans is one turn of what Run does about bans.
func (g *Gate) SyncBans(ctx context.Context) error { return g.bans.Sync(ctx) }
