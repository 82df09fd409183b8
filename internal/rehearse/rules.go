package rehearse

// OpenRules are admission rules for a server under test: the whole crowd may share one address, and a user may order as often
// as a judge with Options.Limit 100 permits.
const OpenRules = `version: 1
rules:
  - name: orders
    match: {route: "/v1/sales/*/orders", method: POST}
    subject: [user]
    limit: 100
    window: 1m
`
