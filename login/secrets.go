package login

// While the secret is rotated, an attempt may have been reserved, or a device token issued, under the previous one.

// parseAttempt decodes an attempt's id, and returns the keyring that signed it.
func (t *Throttle) parseAttempt(id string) (*attemptID, *keyring, error) {
	a, err := t.keys.parseAttempt(id)
	if err != nil && t.previous != nil {
		if a, err := t.previous.parseAttempt(id); err == nil {
			return a, t.previous, nil
		}
	}
	return a, t.keys, err
}

// counters returns the keys of the states, under k, in which an attempt counts. A device is counted under the secret of its token:
// otherwise a revoked one would be good for five more guesses.
func (t *Throttle) counters(k *keyring, a *attemptID) (keys [kinds]string, tag nameTag) {
	keys, tag = k.keys(a.name, a.ip, a.device, a.factor)
	other := t.previous
	if k == t.previous {
		other = t.keys
	}
	if a.foreign && a.device != "" && other != nil {
		keys[byDevice] = other.device(a.device, a.factor)
	}
	return keys, tag
}
