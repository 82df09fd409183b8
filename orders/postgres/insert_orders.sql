WITH written AS (
	INSERT INTO orders ({columns}, confirmed_at, pay_before)
	SELECT {values}, CASE WHEN b.status = 'confirmed' THEN now() END,
	       CASE WHEN b.status = 'confirmed' AND hold_ms > 0 THEN now() + hold_ms * interval '1 millisecond' END
	FROM unnest({lists}) AS b ({columns})
	JOIN sales USING (sale)
	WHERE b.epoch BETWEEN epoch_floor AND sales.epoch
	ORDER BY order_id
	ON CONFLICT DO NOTHING
	RETURNING order_id, sale, item
), seated AS (
	INSERT INTO order_units (sale, item, unit, order_id)
	SELECT sale, item, unit, order_id
	FROM unnest($1::uuid[], $2::integer[]) AS u (order_id, unit) JOIN written USING (order_id) JOIN items USING (sale, item)
	WHERE unit <= stock
	ORDER BY sale, item, unit
	ON CONFLICT DO NOTHING
	RETURNING order_id, unit
)
