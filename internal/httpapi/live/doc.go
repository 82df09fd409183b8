// Package live has the data of the live page and the handlers for its sessions. Package livepage has the page itself.
package live
