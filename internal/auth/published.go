package auth

import "strings"

// publishedPart is part of every secret that stands in a file of this repository, and of no other.
const publishedPart = "demo-only"

// IsPublished reports whether a secret, or a URL with a password, is published in this repository, and so known to everybody.
func IsPublished(secret string) bool { return strings.Contains(secret, publishedPart) }
