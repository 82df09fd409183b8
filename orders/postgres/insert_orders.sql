WITH written AS (
	INSERT INTO orders (order_id, sale, item, buyer, buyer_hash, key_hash, quantity, units, status, reason, epoch,
	                    accepted_at, confirmed_at, pay_before)
	SELECT order_id, sale, item, buyer, buyer_hash, key_hash, quantity, units::integer[], status, reason, b.epoch,
	       accepted_at, CASE WHEN status = 'confirmed' THEN now() END,
	       CASE WHEN status = 'confirmed' AND hold_ms > 0 THEN now() + hold_ms * interval '1 millisecond' END
	FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::integer[], $8::text[],
	            $9::text[], $10::text[], $11::bigint[], $12::timestamptz[])
	     AS b (order_id, sale, item, buyer, buyer_hash, key_hash, quantity, units, status, reason, epoch, accepted_at)
	JOIN sales USING (sale)
	ORDER BY order_id
	ON CONFLICT DO NOTHING
	RETURNING order_id, sale, item
), seated AS (
	INSERT INTO order_units (sale, item, unit, order_id)
	SELECT sale, item, unit, order_id
	FROM unnest($13::uuid[], $14::integer[]) AS u (order_id, unit) JOIN written USING (order_id) JOIN items USING (sale, item)
	WHERE unit <= stock
	ORDER BY sale, item, unit
	ON CONFLICT DO NOTHING
	RETURNING order_id, unit
)
SELECT order_id, coalesce(array_agg(unit) FILTER (WHERE unit IS NOT NULL), '{}')
FROM written LEFT JOIN seated USING (order_id)
GROUP BY order_id
