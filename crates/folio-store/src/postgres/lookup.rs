//! How rows are found by many keys in one question.

/// Asks for `$columns` of the rows of `$table` whose `$key` is one of the `$type`s in the second argument; the first is the space.
///
/// Each key is looked up for itself: `OFFSET 0` keeps PostgreSQL from joining both sides in another way. It knows little of a table that
/// grows, keeps the plan that it once made, and would read the whole space for a handful of keys.
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
