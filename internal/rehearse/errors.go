package rehearse

import "errors"

// ErrOption is wrapped by every error about a wrong option; the text names it as the flag of tidegate rehearse, what was given and what is right.
var ErrOption = errors.New("rehearse: option")

// ErrAPI is wrapped when an API refuses what the run itself asks for or answers with something else than the contract promises.
var ErrAPI = errors.New("rehearse: API")
