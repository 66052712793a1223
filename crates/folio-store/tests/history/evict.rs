//! Large results: what is stored of them, their previews, and how they are read (M7.8 V9, seed 003 A7).

use std::io::{self, Read};

use crate::house::House;
use folio_memory::evict::ResultOf;
use folio_memory::passage::{Part, PartRead, Reading};
use folio_memory::tokens::Estimate;
use folio_memory::{Actor, Role, Seq};
use folio_store::workspace::{Evicted, Eviction, ForgetFilter, ScratchCaller};
use folio_store::{ErrorKind, Store};

fn eviction_above(limit_tokens: u32) -> Eviction {
    Eviction {
        limit_tokens,
        tool: "shell".to_owned(),
        ..Eviction::default()
    }
}

fn client() -> Actor {
    Actor::new(Role::Client, "agent")
}

async fn evicted(house: &House, text: &str, limit: u32) -> Evicted {
    let source = io::Cursor::new(text.to_owned().into_bytes());
    house
        .space
        .evict(&client(), source, eviction_above(limit))
        .await
        .unwrap()
}

async fn read(house: &House, name: &str, part: Part, max_bytes: usize) -> PartRead {
    house.space.read_body(name, &part, max_bytes).await.unwrap()
}

fn text(read: PartRead) -> String {
    match read.reading {
        Reading::Passage(passage) => passage.text().into_owned(),
        Reading::Found(found) => panic!("a passage, not {found:?}"),
    }
}

/// Different lines, `bytes` bytes of them or a little more.
fn lines(bytes: usize) -> String {
    let mut text = String::new();
    let mut n = 0;
    while text.len() < bytes {
        text.push_str(&format!("{n:08} a line that says nothing new\n"));
        n += 1;
    }
    text
}

#[tokio::test]
async fn eviction_by_a_role_that_may_not_add_stores_nothing_m7_7() {
    let house = House::new();
    let clarifier = Actor::new(Role::Clarifier, "asks");
    let evicting = async |text: &str| {
        let source = io::Cursor::new(text.to_owned().into_bytes());
        house.space.evict(&clarifier, source, eviction_above(100)).await
    };
    let refused = evicting(&lines(7 * 1024 * 1024)).await.unwrap_err();
    assert_eq!(refused.code(), "role_denied", "{refused}");
    let commits = house.store.changes(house.space.space(), Seq(0), 10).await.unwrap();
    assert_eq!(commits.len(), 0, "{commits:?}");
    assert_eq!(evicting("all is well").await.unwrap().text, "all is well");
}

#[tokio::test]
async fn only_results_over_the_limit_are_stored_and_only_once_m7_8_v9() {
    let house = House::new();
    let small = evicted(&house, "all is well", 100).await;
    assert_eq!((small.text.as_str(), &small.kept), ("all is well", &None));
    assert_eq!(house.space.head().await.unwrap().0, 0, "nothing is written");

    let long = lines(30_000);
    for limit in [0, 1, 7, 50, 500, 2_000] {
        let large = evicted(&house, &long, limit).await;
        assert!(large.tokens <= limit, "{limit}: {}", large.text);
        assert_eq!(large.kept.as_ref().unwrap().handle.to_string(), "e1");
    }
    let whole = read(&house, "e1", Part::WHOLE, 100_000).await;
    assert_eq!(
        (whole.total_bytes, whole.total_lines),
        (long.len() as u64, long.lines().count() as u64)
    );
    assert_eq!(text(whole), long);
    assert_eq!(house.store.check().await.unwrap().problems, Vec::<String>::new());
}

#[tokio::test]
async fn files_and_memory_answers_are_not_evicted_m7_8_v9() {
    let house = House::new();
    let long = lines(30_000);
    for of in [ResultOf::File, ResultOf::Memory] {
        let how = Eviction {
            of,
            ..eviction_above(10)
        };
        let source = io::Cursor::new(long.clone().into_bytes());
        let left = house.space.evict(&client(), source, how).await.unwrap();
        assert_eq!((left.text == long, left.kept), (true, None));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn multi_piece_result_is_read_by_bytes_lines_and_search_m7_8_v9() {
    let house = House::new();
    let long = lines(11 * 1024 * 1024);
    let large = evicted(&house, &long, 200).await;
    let kept = large.kept.unwrap();
    let name = format!("/large_tool_results/{}", kept.handle);
    let middle = long.len() as u64 / 2;
    let bytes = read(
        &house,
        &name,
        Part::Bytes {
            from: middle,
            to: middle + 500,
        },
        10_000,
    )
    .await;
    let start = long.len() / 2;
    assert_eq!(text(bytes), long[start..start + 500]);
    let some = read(
        &house,
        &kept.hash,
        Part::Lines {
            from: 200_001,
            to: 200_003,
        },
        10_000,
    )
    .await;
    let expected: String = long
        .lines()
        .skip(200_000)
        .take(3)
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(text(some), expected);
    let search = Part::Search {
        words: "00123456 A LINE".to_owned(),
        from: 0,
    };
    let Reading::Found(found) = read(&house, &name, search, 1_000).await.reading else {
        panic!("lines")
    };
    assert_eq!((found.count, found.matches[0].line), (1, 123_457));
    // Read on to the end, capped each time.
    let (mut part, mut all) = (
        Part::Lines {
            from: 300_000,
            to: u64::MAX,
        },
        String::new(),
    );
    loop {
        let Reading::Passage(passage) = read(&house, &name, part, 50_000).await.reading else {
            panic!("a passage")
        };
        assert!(passage.bytes.len() <= 50_000);
        all.push_str(&passage.text());
        match passage.next {
            Some(next) => part = next,
            None => break,
        }
    }
    let expected: String = long.lines().skip(299_999).map(|line| format!("{line}\n")).collect();
    assert!(all == expected);
    assert_eq!(house.store.check().await.unwrap().problems, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reading_on_in_a_long_line_stops_where_requested_m7_8_v9() {
    let house = House::new();
    let second = "a very long line ".repeat(300_000) + "\n";
    let long = format!("first\n{second}third\nfourth\n");
    let name = evicted(&house, &long, 200).await.kept.unwrap().handle.to_string();
    for (last, expected) in [
        (2, second.clone()),
        (3, format!("{second}third\n")),
        (9, long[6..].to_owned()),
    ] {
        let (mut all, mut part) = (String::new(), Part::Lines { from: 2, to: last });
        loop {
            let Reading::Passage(passage) = read(&house, &name, part, 1024 * 1024).await.reading else {
                panic!("a passage")
            };
            all.push_str(&passage.text());
            match passage.next {
                Some(next) => part = next,
                None => break,
            }
        }
        assert!(all == expected, "to line {last}: {} bytes", all.len());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oversized_result_is_read_to_its_end_with_scratchbook_tools_m7_8_v9() {
    let house = House::new();
    let long = lines(17 * 1024 * 1024);
    let name = evicted(&house, &long, 20).await.kept.unwrap().handle.to_string();
    let (actor, thread) = (client(), folio_memory::ThreadKey::main());
    let caller = ScratchCaller {
        actor: &actor,
        thread: &thread,
        tokens: &Estimate,
        idempotency_key: None,
    };
    let call = async |cursor: Option<String>| {
        let mut asked = serde_json::json!({"id": name});
        if let Some(cursor) = cursor {
            asked["cursor"] = cursor.into();
        }
        let answer = house.space.call_scratch_tool(&caller, "scratch_read", &asked).await;
        answer.unwrap().structured
    };
    let first = call(None).await;
    let shown = first["body"].as_str().unwrap();
    assert!(shown.len() > 1_000 && long.starts_with(shown), "{shown}");
    assert_eq!(first["next"], format!("1@{}", shown.len()));
    let (mut end, mut next) = (String::new(), Some(format!("1@{}", long.len() - 5_000)));
    while let Some(cursor) = next {
        let part = call(Some(cursor)).await;
        end.push_str(part["body"].as_str().unwrap());
        next = part["next"].as_str().map(str::to_owned);
    }
    assert_eq!(end, long[long.len() - 5_000..]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn evicted_result_secrets_are_redacted_on_disk_and_in_preview_m7_6_48() {
    // Assembled at run time, so that no scanner takes this file for a leak.
    let token = ["ghp", "_0123456789abcdefghijABCDEFGHIJ012345"].concat();
    let folder = tempfile::tempdir().unwrap();
    let house = House::in_folder(folder.path());
    let long = format!("{token} begins\n{}{token} ends\n", lines(3 * 1024 * 1024));
    let large = evicted(&house, &long, 300).await;
    assert!(large.text.contains("[redacted:github_token] begins"), "{}", large.text);
    assert!(large.text.contains("[redacted:github_token] ends"), "{}", large.text);
    assert_eq!(large.warnings[0].code, "secret_redacted");
    let residue = house
        .store
        .scrub(&folio_memory::SpaceName::main(), vec![token])
        .await
        .unwrap();
    assert_eq!(residue.found, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forgotten_result_is_erased_with_all_its_pieces_m7_6_50() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::in_folder(folder.path());
    let long = lines(6 * 1024 * 1024);
    let kept = evicted(&house, &long, 20).await.kept.unwrap();
    let person = Actor::new(Role::Human, "ada");
    let filter = ForgetFilter {
        entries: vec![folio_memory::id::Ref::Handle(kept.handle)],
        ..ForgetFilter::default()
    };
    let forgotten = house.space.forget(&person, &filter, "a test").await.unwrap();
    assert_eq!(forgotten.residue.found, Vec::<String>::new());
    let residue = house
        .store
        .scrub(&folio_memory::SpaceName::main(), vec!["00123456 a line".to_owned()])
        .await
        .unwrap();
    assert_eq!(residue.found, Vec::<String>::new());
    let error = house.space.read_body(&kept.hash, &Part::WHOLE, 10).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    // What comes again is kept again.
    let again = evicted(&house, &long, 20).await.kept.unwrap();
    assert_ne!(again.handle, kept.handle);
    for name in [again.handle.to_string(), again.hash.clone()] {
        assert_eq!(text(read(&house, &name, Part::WHOLE, 20).await), "00000000 a line that");
    }
    // And once, however often it comes.
    assert_eq!(evicted(&house, &long, 20).await.kept, Some(again));
}

/// A reader that fails after some bytes.
struct Broken(u64);

impl Read for Broken {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match usize::try_from(self.0).unwrap().min(buffer.len()) {
            0 => Err(io::Error::other("the pipe broke")),
            read => {
                self.0 -= read as u64;
                buffer[..read].fill(b'x');
                Ok(read)
            }
        }
    }
}

#[tokio::test]
async fn result_whose_source_fails_midway_leaves_no_entry_m7_8_v9() {
    let house = House::new();
    let error = house
        .space
        .evict(&client(), Broken(9_000_000), eviction_above(10))
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string().as_str()),
        (ErrorKind::Invalid, "cannot read the input: the pipe broke")
    );
    assert_eq!(house.all().await, []);
}

/// A reader that generates lines without holding them.
struct Endless {
    left: usize,
    number: u64,
}

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let line = format!("{:016} the same again\n", self.number);
        let read = line.len().min(buffer.len()).min(self.left);
        buffer[..read].copy_from_slice(&line.as_bytes()[..read]);
        self.number += 1;
        self.left -= read;
        Ok(read)
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn evicting_a_large_result_uses_bounded_memory_m7_8_v9() {
    use folio_testkit::process::Process;
    let folder = tempfile::tempdir().unwrap();
    let peak_of = |megabytes: u16| {
        let path = folder.path().join(format!("{megabytes}.db"));
        let mut process = Process::start(
            "evict::child_evicts_and_says_how_much_memory_that_took",
            &path,
            megabytes,
        );
        loop {
            let line = process.next_line().expect("the peak");
            if let Some((_, kilobytes)) = line.split_once("peak ") {
                break kilobytes.trim_end_matches('.').parse::<u64>().unwrap();
            }
        }
    };
    // More than twice what may be tolerated lies between them; twice as much again would show nothing more.
    let (small, large) = (peak_of(24), peak_of(56));
    assert!(large < small + 12_000, "{small} kB for 24 MB, {large} kB for 56 MB");
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "runs in a process of its own, started by the test above"]
async fn child_evicts_and_says_how_much_memory_that_took() {
    use folio_testkit::process::{orders, say};
    let Some(orders) = orders() else { return };
    let house = House::in_folder(&orders.path);
    let bytes = usize::from(orders.number) * 1_000_000;
    let result = Endless { left: bytes, number: 0 };
    let large = house.space.evict(&client(), result, eviction_above(200)).await.unwrap();
    assert_eq!(large.bytes, bytes as u64);
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    say(format!("peak {}", peak.trim().trim_end_matches(" kB")));
}
