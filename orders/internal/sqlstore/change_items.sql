WITH d AS MATERIALIZED ( -- otherwise SQLite may read the whole list for each item
	SELECT * FROM {rows $2: item text, stock integer, quota_per_buyer integer, in_flight_max integer, final boolean}
)
UPDATE items AS i SET stock = d.stock, quota_per_buyer = d.quota_per_buyer, in_flight_max = d.in_flight_max, final = d.final,
	quota_ever = CASE WHEN quota_ever < d.quota_per_buyer THEN d.quota_per_buyer ELSE quota_ever END
FROM d WHERE i.sale = $1 AND i.item = d.item
	AND (i.stock, i.quota_per_buyer, i.in_flight_max, i.final) <> (d.stock, d.quota_per_buyer, d.in_flight_max, d.final)
