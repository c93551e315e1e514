//! Settings that are one of a few words.

use std::fmt;

/// Makes an enumeration whose values stand in the file as words.
macro_rules! choice {
    ($(#[doc = $doc:literal])+ $name:ident { $($(#[doc = $value_doc:literal])+ $value:ident = $word:literal,)+ }) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[doc = $value_doc])+ $value,)+
        }

        impl $name {
            /// The words, in the order of the values.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// The word in a configuration file.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self {
                    $($name::$value => $word,)+
                }
            }

            /// The value of a word, exactly as written.
            #[must_use]
            pub fn from_word(word: &str) -> Option<$name> {
                match word {
                    $($word => Some($name::$value),)+
                    _ => None,
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(self.word())
            }
        }
    };
}

choice! {
    /// When the log counts as durable.
    WalSync {
        /// Once a sync of the device that began after the write has returned.
        Always = "always",
        /// Once it is written: survives the death of the process, not a loss of power.
        Never = "never",
    }
}

choice! {
    /// Where a replica keeps its keys and values.
    StoreKind {
        /// In memory; a file at each checkpoint.
        Memory = "memory",
        /// On disk, in a log-structured merge tree.
        Lsm = "lsm",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_the_word_of_its_value() {
        for word in WalSync::WORDS {
            assert_eq!(WalSync::from_word(word).map(WalSync::word), Some(*word));
        }
        for word in StoreKind::WORDS {
            assert_eq!(StoreKind::from_word(word).map(StoreKind::word), Some(*word));
        }
        assert_eq!((WalSync::from_word("Always"), StoreKind::from_word("")), (None, None));
    }
}
