//! The nearest known name to one that is unknown.

/// The candidate with the fewest single-character edits from `word`, capitals and underscores aside, or else the one that
/// shares most words with it; none when even the best is so far away that naming it would mislead.
pub(crate) fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
    nearest_by_edits(word, candidates.clone()).or_else(|| nearest_by_words(word, candidates))
}

fn nearest_by_edits<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let folded_word = folded(word);
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        let folded_candidate = folded(candidate);
        if let Some(distance) = near(&folded_word, &folded_candidate)
            && best.is_none_or(|(least, _)| distance < least)
        {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Names of several words are often remembered with a word missing: `heartbeat_ms` for `heartbeat_interval_ms`.
fn nearest_by_words<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let words = words_of(word);
    if words.len() > WORDS_MAX {
        return None;
    }
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        let known = words_of(candidate);
        let shared = words.iter().filter(|word| known.iter().any(|known| near(word, known).is_some())).count();
        let percent = 200 * shared / (words.len() + known.len());
        if percent >= SHARED_WORDS_PERCENT_MIN && best.is_none_or(|(most, _)| percent > most) {
            best = Some((percent, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// More words than any key has.
const WORDS_MAX: usize = 12;
/// From here on two names have more words in common than not.
const SHARED_WORDS_PERCENT_MIN: usize = 60;

/// The distance of two folded words, when it is at most a third of the known one's length.
fn near(word: &[char], known: &[char]) -> Option<usize> {
    let worst = (known.len() / 3).max(1);
    // A difference in length is a lower bound of the distance and keeps a long word cheap.
    if word.len().abs_diff(known.len()) > worst {
        return None;
    }
    Some(edit_distance(word, known)).filter(|distance| *distance <= worst && *distance < known.len())
}

fn words_of(name: &str) -> Vec<Vec<char>> {
    let mut words = vec![Vec::new()];
    for character in name.chars() {
        if character == '_' || character == '-' || character.is_uppercase() {
            words.push(Vec::new());
        }
        if let Some(last) = words.last_mut() {
            last.extend(character.to_lowercase().filter(|lower| lower.is_alphanumeric()));
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

fn folded(word: &str) -> Vec<char> {
    word.chars().filter(|character| *character != '_' && *character != '-').flat_map(char::to_lowercase).collect()
}

/// Edits between two words, where an edit inserts, removes or replaces a character or swaps two neighbours.
fn edit_distance(left: &[char], right: &[char]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=right.len()).collect();
    for (row, left_character) in left.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, right_character) in right.iter().enumerate() {
            let replaced = last[column] + usize::from(left_character != right_character);
            let mut least = replaced.min(last[column + 1] + 1).min(current[column] + 1);
            let swapped =
                row > 0 && column > 0 && *left_character == right[column - 1] && left[row - 1] == *right_character;
            if swapped {
                least = least.min(before_last[column - 1] + 1);
            }
            current.push(least);
        }
        before_last = last;
        last = current;
    }
    last[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distance(left: &str, right: &str) -> usize {
        edit_distance(&left.chars().collect::<Vec<_>>(), &right.chars().collect::<Vec<_>>())
    }

    #[test]
    fn each_kind_of_edit_counts_one() {
        assert_eq!(distance("port", "port"), 0);
        assert_eq!(distance("prt", "port"), 1);
        assert_eq!(distance("poort", "port"), 1);
        assert_eq!(distance("part", "port"), 1);
        assert_eq!(distance("prot", "port"), 1);
        assert_eq!(distance("", "port"), 4);
        assert_eq!(distance("kitten", "sitting"), 3);
    }

    #[test]
    fn a_far_word_has_no_nearest() {
        let known = ["heartbeat_interval_ms", "port", "id"];
        assert_eq!(nearest("interval", known.into_iter()), None);
        assert_eq!(nearest("seconds_ms", known.into_iter()), None);
        assert_eq!(nearest("hearbeat_intervall_ms", known.into_iter()), Some("heartbeat_interval_ms"));
        assert_eq!(nearest("heartbeatIntervalMs", known.into_iter()), Some("heartbeat_interval_ms"));
        assert_eq!(nearest("prot", known.into_iter()), Some("port"));
        assert_eq!(nearest("colour", known.into_iter()), None);
        assert_eq!(nearest("", known.into_iter()), None);
    }

    #[test]
    fn a_forgotten_word_does_not_hide_the_name() {
        let known = ["disk_stall_timeout_ms", "heartbeat_interval_ms", "election_timeout_ms"];
        assert_eq!(nearest("hearbeat_ms", known.into_iter()), Some("heartbeat_interval_ms"));
        assert_eq!(nearest("hearbeat_interval", known.into_iter()), Some("heartbeat_interval_ms"));
        assert_eq!(nearest("electionMs", known.into_iter()), Some("election_timeout_ms"));
    }
}
