package rehearse

import "errors"

// ErrOption is wrapped by every error about an invalid option; the text names the flag of tidegate rehearse, the value given,
// and what would be right.
var ErrOption = errors.New("rehearse: option")

// errAPI is wrapped when an API refuses the run's own requests, or its response violates the API's contract.
var errAPI = errors.New("rehearse: API")
