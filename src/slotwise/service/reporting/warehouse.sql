-- Views over an export of slotwise, for DuckDB: .read this file. In another warehouse make tables of
-- the folders under the same names, then use the last three views. Money is in millionths of a unit.

CREATE OR REPLACE VIEW decisions AS
SELECT * FROM read_parquet('{folder}/decisions/*/*.parquet', hive_partitioning = true);

CREATE OR REPLACE VIEW events AS
SELECT * FROM read_parquet('{folder}/events/*/*.parquet', hive_partitioning = true);

CREATE OR REPLACE VIEW settled_views AS
SELECT * FROM read_parquet('{folder}/settled_views/*/*.parquet', hive_partitioning = true);

CREATE OR REPLACE VIEW links AS SELECT * FROM read_parquet('{folder}/links/links.parquet');

CREATE OR REPLACE VIEW forgotten AS SELECT * FROM read_parquet('{folder}/forgotten/forgotten.parquet');

-- Settled page views without those that were forgotten after they had been exported.
CREATE OR REPLACE VIEW counted_views AS
SELECT v.*
FROM settled_views AS v
WHERE NOT EXISTS (
    SELECT 1 FROM forgotten AS f
    WHERE f.key_id = v.key_id AND v.issued >= f.since AND v.settled < f.forgotten
);

-- Revenue per page view of chosen, own and random pages, by the day the page was shown. The lift is
-- that over random pages, `lift_over_own` that over the own page.
CREATE OR REPLACE VIEW lift_by_day AS
SELECT
    pool_id,
    day,
    currency,
    policy_views,
    own_views,
    holdout_views,
    policy_revenue_micros,
    own_revenue_micros,
    holdout_revenue_micros,
    1.0 * policy_revenue_micros / NULLIF(policy_views, 0) AS policy_revenue_per_view_micros,
    1.0 * own_revenue_micros / NULLIF(own_views, 0) AS own_revenue_per_view_micros,
    1.0 * holdout_revenue_micros / NULLIF(holdout_views, 0) AS holdout_revenue_per_view_micros,
    (1.0 * policy_revenue_micros / NULLIF(policy_views, 0))
        / NULLIF(1.0 * holdout_revenue_micros / NULLIF(holdout_views, 0), 0) - 1 AS lift,
    (1.0 * policy_revenue_micros / NULLIF(policy_views, 0))
        / NULLIF(1.0 * own_revenue_micros / NULLIF(own_views, 0), 0) - 1 AS lift_over_own
FROM (
    SELECT
        pool_id,
        issued_day AS day,
        currency,
        SUM(CASE WHEN page_group = 'chosen' THEN 1 ELSE 0 END) AS policy_views,
        SUM(CASE WHEN page_group = 'own' THEN 1 ELSE 0 END) AS own_views,
        SUM(CASE WHEN page_group = 'random' THEN 1 ELSE 0 END) AS holdout_views,
        SUM(CASE WHEN page_group = 'chosen' THEN revenue_micros ELSE 0 END) AS policy_revenue_micros,
        SUM(CASE WHEN page_group = 'own' THEN revenue_micros ELSE 0 END) AS own_revenue_micros,
        SUM(CASE WHEN page_group = 'random' THEN revenue_micros ELSE 0 END) AS holdout_revenue_micros
    FROM counted_views
    GROUP BY pool_id, issued_day, currency
) AS days;

-- Page views, clicks and sales received in time so far, by the day the page was shown.
CREATE OR REPLACE VIEW funnel AS
WITH clicked AS (
    SELECT d.decision_id, COUNT(*) AS clicks
    FROM decisions AS d
    JOIN events AS e ON e.decision_id = d.decision_id
    WHERE e.type = 'click' AND e.invalid = '' AND e.received <= d.click_closes
    GROUP BY d.decision_id
),
refunded AS (
    SELECT d.decision_id, r.conversion_id, SUM(r.amount_micros) AS refund_micros
    FROM decisions AS d
    JOIN events AS e ON e.decision_id = d.decision_id AND e.type = 'conversion'
    JOIN events AS r ON r.conversion_id = e.conversion_id AND r.type = 'adjustment'
    WHERE r.currency = d.currency AND r.received <= d.revenue_until
    GROUP BY d.decision_id, r.conversion_id
),
sold AS (
    SELECT
        d.decision_id,
        COUNT(*) AS sales,
        SUM(CASE WHEN e.amount_micros > d.max_revenue_micros THEN 1 ELSE 0 END) AS cut_sales,
        SUM(
            LEAST(GREATEST(e.amount_micros - COALESCE(r.refund_micros, 0), 0), d.max_revenue_micros)
        ) AS revenue_micros
    FROM decisions AS d
    JOIN events AS e ON e.decision_id = d.decision_id
    LEFT JOIN refunded AS r
        ON r.decision_id = d.decision_id AND r.conversion_id = e.conversion_id
    WHERE e.type = 'conversion' AND e.currency = d.currency AND e.received <= d.revenue_until
    GROUP BY d.decision_id
)
SELECT
    d.pool_id,
    d.issued_day AS day,
    d.page_group,
    d.currency,
    COUNT(*) AS views,
    COUNT(clicked.decision_id) AS views_with_click,
    SUM(COALESCE(clicked.clicks, 0)) AS clicks,
    COUNT(sold.decision_id) AS views_with_sale,
    SUM(COALESCE(sold.sales, 0)) AS sales,
    SUM(COALESCE(sold.cut_sales, 0)) AS cut_sales,
    SUM(COALESCE(sold.revenue_micros, 0)) AS revenue_micros
FROM decisions AS d
LEFT JOIN clicked ON clicked.decision_id = d.decision_id
LEFT JOIN sold ON sold.decision_id = d.decision_id
GROUP BY d.pool_id, d.issued_day, d.page_group, d.currency;

-- What each link has brought on settled page views since its statistics were last reset.
CREATE OR REPLACE VIEW link_statistics AS
SELECT
    shown.pool_id,
    shown.link.link_id AS link_id,
    MAX(links.title) AS title,
    shown.currency,
    COUNT(*) AS views,
    SUM(CASE WHEN shown.link.clicked THEN 1 ELSE 0 END) AS clicks,
    SUM(shown.link.revenue_micros) AS revenue_micros,
    1.0 * SUM(CASE WHEN shown.link.clicked THEN 1 ELSE 0 END) / COUNT(*) AS click_rate,
    1.0 * SUM(shown.link.revenue_micros) / COUNT(*) AS revenue_per_view_micros
FROM (SELECT pool_id, currency, issued, UNNEST(links) AS link FROM counted_views) AS shown
LEFT JOIN links ON links.pool_id = shown.pool_id AND links.link_id = shown.link.link_id
WHERE links.counted_from IS NULL OR shown.issued >= links.counted_from
GROUP BY shown.pool_id, shown.link.link_id, shown.currency;
