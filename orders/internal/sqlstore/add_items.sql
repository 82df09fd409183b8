WITH d AS MATERIALIZED (
	SELECT * FROM {rows $2: place integer, item text, stock integer, quota_per_buyer integer, in_flight_max integer, final boolean}
)
INSERT INTO items (sale, item, stock, quota_per_buyer, quota_ever, in_flight_max, final)
SELECT $1, item, stock, quota_per_buyer, quota_per_buyer, in_flight_max, final FROM d
WHERE NOT EXISTS (SELECT 1 FROM items i WHERE i.sale = $1 AND i.item = d.item) -- not ON CONFLICT, which would spend a number on each item
ORDER BY place
RETURNING item
