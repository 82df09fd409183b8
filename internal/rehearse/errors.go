package rehearse

import "errors"

// ErrOption is wrapped by every error about a wrong option; the text names the option, what was given and what is right.
var ErrOption = errors.New("rehearse: option")

// ErrAPI is wrapped when the internal API refuses or answers with something else than the contract promises.
var ErrAPI = errors.New("rehearse: internal API")
