// Package strictjson decodes JSON that all parsers understand alike: valid UTF-8, no duplicate keys, no null.
package strictjson
