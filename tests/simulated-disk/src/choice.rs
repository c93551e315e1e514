//! Who decides what survives: a generator, or an enumeration that tries every answer.

use rand::Rng;
use rand::rngs::ChaCha8Rng;

/// Answers the questions "which of so many".
pub(crate) trait Chooser {
    /// A number below `options`, which is at least two.
    fn choose(&mut self, options: usize) -> usize;

    /// What follows concerns another file.
    fn next_part(&mut self) {}
}

/// How much of one file a random crash tends to keep. A fair coin for each of many pages would hardly ever show the cases that
/// matter most: everything gone, everything there, one page missing.
#[derive(Clone, Copy, Debug)]
enum Leaning {
    Oldest,
    MostlyOldest,
    Even,
    MostlyNewest,
    Newest,
}

/// Choices drawn from a generator.
pub(crate) struct RandomChooser<'a> {
    generator: &'a mut ChaCha8Rng,
    leaning: Leaning,
}

impl<'a> RandomChooser<'a> {
    pub(crate) fn new(generator: &'a mut ChaCha8Rng) -> RandomChooser<'a> {
        let mut chooser = RandomChooser { generator, leaning: Leaning::Even };
        chooser.next_part();
        chooser
    }

    fn below(&mut self, limit: usize) -> usize {
        // The bias of the remainder is of no importance here.
        (self.generator.next_u64() % limit.max(1) as u64) as usize
    }
}

impl Chooser for RandomChooser<'_> {
    fn choose(&mut self, options: usize) -> usize {
        let even = self.below(options);
        let exception = self.below(8) == 0;
        match self.leaning {
            Leaning::Oldest => 0,
            Leaning::Newest => options - 1,
            Leaning::MostlyOldest if !exception => 0,
            Leaning::MostlyNewest if !exception => options - 1,
            Leaning::MostlyOldest | Leaning::MostlyNewest | Leaning::Even => even,
        }
    }

    fn next_part(&mut self) {
        self.leaning = match self.below(5) {
            0 => Leaning::Oldest,
            1 => Leaning::MostlyOldest,
            2 => Leaning::Even,
            3 => Leaning::MostlyNewest,
            _ => Leaning::Newest,
        };
    }
}

/// Every sequence of answers, each once: an odometer whose wheels appear as the questions are asked.
#[derive(Debug, Default)]
pub(crate) struct EveryChoice {
    wheels: Vec<(usize, usize)>,
    asked: usize,
}

impl EveryChoice {
    /// Turns to the next sequence; false when all were seen.
    pub(crate) fn advance(&mut self) -> bool {
        self.asked = 0;
        while let Some((answer, options)) = self.wheels.pop() {
            if answer + 1 < options {
                self.wheels.push((answer + 1, options));
                return true;
            }
        }
        false
    }
}

impl Chooser for EveryChoice {
    fn choose(&mut self, options: usize) -> usize {
        if self.asked == self.wheels.len() {
            self.wheels.push((0, options));
        }
        self.asked += 1;
        self.wheels[self.asked - 1].0
    }
}

/// The same answer everywhere, oldest or newest, but for one question, which is answered the other way.
#[derive(Debug)]
pub(crate) struct OneOff {
    pub(crate) newest: bool,
    pub(crate) exception: Option<usize>,
    asked: usize,
}

impl OneOff {
    pub(crate) fn new(newest: bool, exception: Option<usize>) -> OneOff {
        OneOff { newest, exception, asked: 0 }
    }

    /// Whether the question of the exception was reached.
    pub(crate) fn reached(&self) -> bool {
        self.exception.is_none_or(|exception| exception < self.asked)
    }
}

impl Chooser for OneOff {
    fn choose(&mut self, options: usize) -> usize {
        let exceptional = self.exception == Some(self.asked);
        self.asked += 1;
        if self.newest != exceptional { options - 1 } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sequence_of_answers_comes_exactly_once_also_when_later_questions_depend_on_earlier_answers() {
        let mut every = EveryChoice::default();
        let mut seen = Vec::new();
        loop {
            let first = every.choose(3);
            let second = if first == 1 { every.choose(2) } else { 9 };
            seen.push((first, second));
            if !every.advance() {
                break;
            }
        }
        assert_eq!(seen, [(0, 9), (1, 0), (1, 1), (2, 9)]);
    }

    #[test]
    fn one_question_is_answered_the_other_way() {
        let mut newest = OneOff::new(true, Some(1));
        assert_eq!([newest.choose(4), newest.choose(4), newest.choose(2)], [3, 0, 1]);
        assert!(newest.reached());
        let mut oldest = OneOff::new(false, Some(7));
        assert_eq!(oldest.choose(4), 0);
        assert!(!oldest.reached());
    }
}
