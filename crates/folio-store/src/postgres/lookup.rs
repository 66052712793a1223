//! Finding rows by many keys in one query.

/// Selects `$columns` of the rows of `$table` whose `$key` is one of the `$type`s in the second argument; the first is
/// the space.
///
/// Each key is looked up by itself: `OFFSET 0` keeps PostgreSQL from joining both sides in another way. It knows little
/// of a table that grows, keeps the plan that it once made, and would read the whole space for a handful of keys.
macro_rules! looked_up {
    ($columns:expr, $table:literal, $key:literal, $type:literal) => {
        concat!(
            "SELECT found.* FROM unnest($2::",
            $type,
            "[]) AS wanted (key) CROSS JOIN LATERAL (SELECT ",
            $columns,
            " FROM ",
            $table,
            " WHERE space = $1 AND ",
            $table,
            ".",
            $key,
            " = wanted.key OFFSET 0) AS found"
        )
    };
}

pub(super) use looked_up;

/// The number of the last row of a part: of up to $3 rows of `table` after $2, the last one before which the others
/// have less than $4 `bytes`, as far as these are known without reading the rows. A part is read at once and held in
/// memory as a whole.
pub(super) fn last_of_part(table: &str, number: &str, bytes: &str) -> String {
    format!(
        "SELECT max(number) FROM
         (SELECT number, sum(bytes) OVER (ORDER BY number ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM
             (SELECT {number} AS number, {bytes} AS bytes FROM {table} WHERE space = $1 AND {number} > $2 ORDER BY {number} LIMIT $3)
             AS next) AS summed
         WHERE coalesce(before, 0) < $4::bigint"
    )
}
