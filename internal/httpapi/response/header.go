package response

// Values of header fields.
var (
	NoStore = []string{"no-store"} // Cache-Control of answers that must not be kept
	JSON    = []string{"application/json"}
)
