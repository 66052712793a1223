use std::collections::BTreeSet;

use folio_memory::EntryId;
use proptest::prelude::*;

use super::*;

fn entry(number: u64) -> EntryId {
    EntryId::from_bytes(u128::from(number).to_be_bytes())
}

/// Whether the link closes a circle, and how many steps were taken until that was known.
fn searched(circles: &Circles, link: (EntryId, EntryId)) -> (bool, u32) {
    let mut search = circles.search(link);
    let mut steps = 1;
    loop {
        match search.step(circles, Relation::Blocks) {
            Some(found) => return (found, steps),
            None => steps += 1,
        }
    }
}

#[test]
fn cycle_check_for_a_chain_takes_few_steps_either_way() {
    let forward: Vec<_> = (0..20_000).map(|number| (number, number + 1)).collect();
    let onto: Vec<_> = (0..20_000).map(|number| (number + 1, number)).collect();
    for links in [forward, onto] {
        let mut circles = Circles::default();
        for (src, dst) in links {
            let link = (entry(src), entry(dst));
            let (found, steps) = searched(&circles, link);
            assert!(!found && steps < 8, "{src} to {dst}: {steps}");
            circles.add(Relation::Blocks, link);
        }
    }
}

#[test]
fn cycle_check_for_a_hub_takes_few_steps() {
    let mut circles = Circles::default();
    for number in 1..20_000 {
        let link = if number % 2 == 0 {
            (entry(0), entry(number))
        } else {
            (entry(number), entry(0))
        };
        let (found, steps) = searched(&circles, link);
        assert!(!found && steps < 8, "{number}: {steps}");
        circles.add(Relation::Blocks, link);
    }
}

#[test]
fn cycle_of_maximum_searched_length_is_found() {
    let mut circles = Circles::default();
    let last = CIRCLE_MAX as u64 - 1;
    for number in 0..last {
        circles.add(Relation::Blocks, (entry(number), entry(number + 1)));
    }
    assert!(searched(&circles, (entry(last), entry(0))).0);
    assert!(!searched(&circles, (entry(0), entry(last))).0);
}

#[test]
fn long_supersession_chain_is_shortened_to_its_newest_entry() {
    let mut successors = Successors::default();
    successors.learn(entry(0), None);
    for number in 1..100_000 {
        assert_eq!(successors.lead(entry(number - 1), entry(number)), Leads::There(false));
        successors.add(entry(number), entry(number - 1));
    }
    let short = successors.of_file.values().filter(|by| **by == entry(0)).count();
    assert!(short >= 99_997, "all but the newest lead there at once, not {short}");
}

/// Whether `to` is reached from `from`, the slow way.
fn reaches(links: &BTreeSet<(u64, u64)>, from: u64, to: u64) -> bool {
    let (mut seen, mut left) = (BTreeSet::new(), vec![from]);
    while let Some(at) = left.pop() {
        if at == to {
            return true;
        }
        if seen.insert(at) {
            left.extend(links.iter().filter(|(src, _)| *src == at).map(|(_, dst)| *dst));
        }
    }
    false
}

proptest! {
    #[test]
    fn cycle_check_reports_exactly_the_links_that_close_a_cycle(links in prop::collection::vec((0_u64..9, 0_u64..9), 0..40)) {
        let (mut circles, mut taken) = (Circles::default(), BTreeSet::new());
        for (src, dst) in links {
            let (found, _) = searched(&circles, (entry(src), entry(dst)));
            prop_assert_eq!(found, reaches(&taken, dst, src));
            if !found {
                circles.add(Relation::Blocks, (entry(src), entry(dst)));
                taken.insert((src, dst));
            }
        }
    }

    #[test]
    fn supersession_check_reports_exactly_the_links_that_lead_back(
        order in Just((0_u64..9).collect::<Vec<_>>()).prop_shuffle(),
        successors in prop::collection::vec(prop::option::of(0_u64..9), 9),
        here in prop::collection::vec(prop::option::of(0_u64..9), 9),
    ) {
        // Of each, the file says what it says once; until then it is as it is here.
        let mut found = Successors::default();
        let mut now = here.clone();
        for (number, by) in (0..).zip(&here) {
            found.learn(entry(number), by.map(entry));
        }
        for number in order {
            let place = usize::try_from(number).unwrap();
            let Some(by) = successors[place] else { continue };
            let links = (0..).zip(&now).filter_map(|(src, dst)| Some((src, (*dst)?))).collect();
            let leads = reaches(&links, by, number);
            prop_assert_eq!(found.lead(entry(by), entry(number)), Leads::There(leads), "{} by {}", number, by);
            if !leads {
                found.add(entry(number), entry(by));
                now[place] = Some(by);
            }
        }
    }
}
