//! Crash images: for every moment of a recording, the disks that a power cut may leave.

use crate::choice::{EveryChoice, OneOff, RandomChooser};
use crate::disk::SimulatedDisk;
use crate::file::Torn;
use crate::medium::{Medium, Outcome};
use crate::operation::Operation;
use crate::recording::Recording;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How many images are made.
#[derive(Clone, Copy, Debug)]
pub struct ImageLimits {
    /// Up to so many outcomes for one moment all are made; of more, so many are picked: nothing lost, everything lost, each single
    /// piece lost or kept alone as far as they fit, then random ones.
    pub images_per_moment: usize,
    /// How small a piece of a write may survive alone.
    pub torn: Torn,
    /// Decides which are picked.
    pub seed: u64,
}

impl Default for ImageLimits {
    fn default() -> ImageLimits {
        ImageLimits { images_per_moment: 256, torn: Torn::Pages, seed: 0 }
    }
}

/// One disk after a power cut.
#[derive(Debug)]
pub struct CrashImage {
    /// So many operations of the recording, marks included, had been done.
    pub operations_done: usize,
    /// Whether all legal outcomes of this moment are among the images, or only a sample of them.
    pub exhaustive: bool,
    /// The disk, to recover from.
    pub disk: SimulatedDisk,
    outcome: Outcome,
    last: String,
}

impl CrashImage {
    /// What survived, for the message of a failed check.
    #[must_use]
    pub fn describe(&self) -> String {
        let by_file: BTreeMap<u64, String> =
            self.outcome.names.iter().map(|(name, file)| (*file, name.display().to_string())).collect();
        let names: Vec<&String> = by_file.values().collect();
        let mut text = format!("power cut after {} operations ({}); names {names:?}", self.operations_done, self.last);
        for (file, outcome) in &self.outcome.files {
            let name = by_file.get(file).map_or("?", String::as_str);
            text += &format!("; {name}: {} length changes, page versions {:?}", outcome.lengths_applied, outcome.pages);
        }
        text
    }
}

/// The images of a recording, moment by moment.
#[derive(Debug)]
pub struct CrashImages<'a> {
    recording: &'a Recording,
    limits: ImageLimits,
    medium: Medium,
    /// Operations that the medium holds.
    done: usize,
    exhaustive: bool,
    outcomes: VecDeque<Outcome>,
    started: bool,
    generator: ChaCha8Rng,
}

impl<'a> CrashImages<'a> {
    pub(crate) fn new(recording: &'a Recording, limits: ImageLimits) -> CrashImages<'a> {
        CrashImages {
            recording,
            limits,
            medium: recording.base.clone(),
            done: 0,
            exhaustive: true,
            outcomes: VecDeque::new(),
            started: false,
            generator: ChaCha8Rng::seed_from_u64(limits.seed),
        }
    }

    /// Goes on to the next moment that differs; false at the end.
    fn next_moment(&mut self) -> bool {
        if !self.started {
            self.started = true;
            return true;
        }
        while let Some(recorded) = self.recording.operations.get(self.done) {
            self.done += 1;
            if let Some(effect) = &recorded.effect {
                self.medium.apply(effect);
                return true;
            }
            // A mark changes nothing on the disk, but what a check may expect of it.
            if matches!(recorded.operation, Operation::Mark(_)) {
                return true;
            }
        }
        false
    }

    fn find_outcomes(&mut self) {
        let limit = self.limits.images_per_moment.max(1);
        let mut outcomes = BTreeSet::new();
        let mut every = EveryChoice::default();
        // Outcomes with equal bytes are one, so a few more answers than outcomes may be needed.
        for _ in 0..limit.saturating_mul(4) {
            outcomes.insert(self.medium.choose_outcome(self.limits.torn, &mut every));
            if outcomes.len() > limit {
                break;
            }
            if !every.advance() {
                self.exhaustive = true;
                self.outcomes = outcomes.into_iter().collect();
                return;
            }
        }
        self.exhaustive = false;
        self.outcomes = self.sample(limit).into_iter().collect();
    }

    fn sample(&mut self, limit: usize) -> BTreeSet<Outcome> {
        let torn = self.limits.torn;
        let mut outcomes = BTreeSet::new();
        for newest in [true, false] {
            outcomes.insert(self.medium.choose_outcome(torn, &mut OneOff::new(newest, None)));
        }
        // A third of the room each for "all but one" and "only one", the rest for what nobody thought of.
        for newest in [true, false] {
            for exception in 0..limit / 3 {
                let mut chooser = OneOff::new(newest, Some(exception));
                let outcome = self.medium.choose_outcome(torn, &mut chooser);
                if !chooser.reached() {
                    break;
                }
                outcomes.insert(outcome);
            }
        }
        for _ in 0..limit.saturating_mul(2) {
            if outcomes.len() >= limit {
                break;
            }
            outcomes.insert(self.medium.choose_outcome(torn, &mut RandomChooser::new(&mut self.generator)));
        }
        outcomes
    }
}

impl Iterator for CrashImages<'_> {
    type Item = CrashImage;

    fn next(&mut self) -> Option<CrashImage> {
        while self.outcomes.is_empty() {
            if !self.next_moment() {
                return None;
            }
            self.find_outcomes();
        }
        let outcome = self.outcomes.pop_front()?;
        let last = self
            .done
            .checked_sub(1)
            .map_or_else(|| "before the first".to_owned(), |last| self.recording.operations[last].line());
        Some(CrashImage {
            operations_done: self.done,
            exhaustive: self.exhaustive,
            disk: SimulatedDisk::with_medium(self.medium.after(&outcome), self.limits.seed),
            outcome,
            last,
        })
    }
}
