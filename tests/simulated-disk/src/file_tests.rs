use super::*;
use crate::choice::EveryChoice;

fn outcomes(file: &FileState) -> BTreeSet<Vec<u8>> {
    let mut every = EveryChoice::default();
    let mut found = BTreeSet::new();
    loop {
        found.insert(file.after(&file.choose_outcome(Torn::Pages, &mut every)).durable_bytes());
        if !every.advance() {
            return found;
        }
    }
}

#[test]
fn a_sync_in_the_middle_leaves_what_came_later_unsynced() {
    let mut file = FileState::durable(b"0");
    file.write(b"1", 0, 5);
    file.write(b"22", 0, 6);
    file.sync(5);
    assert_eq!(file.durable_bytes(), b"1");
    assert_eq!(outcomes(&file), BTreeSet::from([b"1".to_vec(), b"1\0".to_vec(), b"2".to_vec(), b"22".to_vec()]));
    file.sync(6);
    assert!(file.is_durable());
}

#[test]
fn a_page_with_very_many_versions_forgets_some_and_loses_nothing_that_a_sync_covered() {
    let mut file = FileState::durable(&[0; 10]);
    for value in 1..=200 {
        file.write(&[value; 10], 0, u64::from(value));
    }
    assert_eq!(file.versions[&0].len(), VERSIONS_PER_PAGE_MAX);
    let found: BTreeSet<u8> = outcomes(&file).into_iter().map(|bytes| bytes[0]).collect();
    assert!(found.contains(&0) && found.contains(&200) && found.len() == VERSIONS_PER_PAGE_MAX + 1);
    file.sync(100);
    assert!(file.durable_bytes()[0] >= 100);
    assert!(outcomes(&file).iter().all(|bytes| bytes[0] >= 100));
}

#[test]
fn very_many_lengths_forget_some_and_lose_nothing_that_a_sync_covered() {
    let mut file = FileState::default();
    for count in 0..500 {
        file.write(b"x", count, count + 1);
    }
    assert_eq!(file.lengths.len(), VERSIONS_PER_PAGE_MAX);
    file.sync(250);
    assert!(file.durable_bytes().starts_with(&[b'x'; 250]));
    file.sync(500);
    assert_eq!(file.durable_bytes(), [b'x'; 500]);
}

#[test]
fn rewriting_the_same_bytes_is_no_new_version_but_makes_a_page_dirty_that_a_failed_sync_had_marked_clean() {
    let mut file = FileState::durable(b"old");
    file.write(b"old", 0, 1);
    assert!(file.is_synced());
    file.write(b"new", 0, 2);
    file.write(b"new", 0, 3);
    assert_eq!(file.versions[&0].len(), 1);
    file.forget(3, false);
    assert!(file.is_synced() && !file.is_durable());
    file.write(b"new", 0, 4);
    file.sync(4);
    assert_eq!(file.durable_bytes(), b"new");
}

#[test]
fn after_a_failed_sync_that_marked_pages_clean_a_grown_file_is_found_with_zeros() {
    let mut file = FileState::durable(b"ab");
    file.write(b"cd", 2, 1);
    file.forget(1, false);
    file.sync(2);
    assert_eq!(file.durable_bytes(), b"ab\0\0");
    assert_eq!(file.cached_bytes(), b"abcd");
}

#[test]
fn a_truncation_among_unsynced_writes_separates_what_was_before_from_what_came_after() {
    let mut file = FileState::durable(b"aa");
    file.write(b"bb", 0, 1);
    file.set_length(0, 2);
    file.write(b"c", 0, 3);
    let expected = [&b"aa"[..], b"bb", b"", b"\0", b"c"].map(<[u8]>::to_vec);
    assert_eq!(outcomes(&file), BTreeSet::from(expected));
}

#[test]
fn what_lay_beyond_a_truncation_stays_away_though_the_sync_that_should_have_written_it_failed() {
    let mut file = FileState::durable(b"aa");
    file.set_length(0, 1);
    file.set_length(2, 2);
    file.forget(2, false);
    file.sync(2);
    assert_eq!(file.durable_bytes(), [0; 2]);
}

#[test]
fn a_truncation_frees_what_the_medium_holds_and_the_cache_does_not() {
    let mut file = FileState::durable(b"aa");
    file.write(&[0; 2], 0, 1);
    file.forget(1, false);
    file.set_length(0, 2);
    file.set_length(2, 3);
    file.sync(3);
    assert_eq!(file.durable_bytes(), [0; 2]);
}

#[test]
fn a_truncation_frees_what_was_only_there_between_two_writes() {
    let mut file = FileState::durable(&[0; 2]);
    file.write(b"b", 0, 1);
    file.write(&[0], 0, 2);
    file.set_length(0, 3);
    file.set_length(3, 4);
    let expected = [&[0, 0][..], b"b\0", b"", &[0, 0, 0]].map(<[u8]>::to_vec);
    assert_eq!(outcomes(&file), BTreeSet::from(expected));
}
