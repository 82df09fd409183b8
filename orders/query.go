package orders

// Query selects orders of one sale, in the order of their ids.
type Query struct {
	Sale   string
	Viewer Viewer
	User   string // restricts a query for all orders to one user
	Status Status // optional
	After  ID     // exclusive
	Limit  int
}
