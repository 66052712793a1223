//! A year of steady observations, and the resulting size of the file.

use serde_json::json;

use crate::house::{DAY, House};

/// Days after which as much is removed as is added: a lifetime, the time that content is kept after it, that of a
/// tombstone.
const STEADY: u64 = 7 + 30 + 30;

/// Simulates `days` with `per_day` observations each; returns the size of the file in bytes after each day.
async fn live(house: &House, days: u64, per_day: u32) -> Vec<u64> {
    let mut sizes = Vec::new();
    for day in 0..days {
        for n in 0..per_day {
            let content = format!(
                "On day {day} the {n}th look at the queue found {} jobs waiting for the second worker; the oldest had been \
                 there for {} minutes. Restarting it has helped before, see the notes of the last turn.",
                (day * 31 + u64::from(n) * 17) % 97,
                (day * 13 + u64::from(n) * 7) % 59,
            );
            let input = json!({"content": content, "tags": ["queue", format!("day-{}", day % 7)], "context": {"goal_id": n % 5}});
            let entry = house.add(input).await;
            if n % 3 == 0 {
                house.update(&entry, json!({"status": "resolved"})).await;
            }
        }
        house.clock.advance(DAY);
        while house.tidy().await.more {}
        sizes.push(house.bytes());
    }
    sizes
}

/// Prints a table. `FOLIO_YEAR_PER_DAY=2740` with `--release` simulates a million observations in a year.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "a measurement is told how much it measures")]
async fn file_size_stays_bounded_over_200_days_of_observations_m7_6_45() {
    let asked = std::env::var("FOLIO_YEAR_PER_DAY").ok();
    let (days, per_day) = asked.map_or((200, 12), |text| (365, text.parse().unwrap()));
    let house = House::new();
    house
        .set_policy(json!({"quota": {"live_observations": 1_000_000}}))
        .await;
    let sizes = live(&house, days, per_day).await;
    for (day, bytes) in (1..).zip(&sizes).filter(|(day, _)| day % 20 == 0 || *day == days) {
        println!("day {day:>3}  {:>9} KiB", bytes / 1024);
    }
    let at = |day: u64| sizes[usize::try_from(day).unwrap() - 1];
    let (steady, end) = (at(STEADY + 10), at(days));
    assert!(end < steady + steady / 10, "{steady} bytes grew to {end}");
    house.assert_sound().await;
    let head = house.workspace.head().await.unwrap();
    let workspace = &house.workspace;
    let log = folio_testkit::whole_log(&**workspace.store(), workspace.space())
        .await
        .unwrap();
    assert!((log.len() as u64) < head.0 / 2, "{} rows of {head} commits", log.len());
}
