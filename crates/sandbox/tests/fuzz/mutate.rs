//! Mutator: flips, splices and tokens, from a fixed start so that a failure is reproducible.

/// Length limit of inputs. Longer ones find the same failures more slowly.
const LONGEST: usize = 2048;

/// Bytes with a special meaning to parsers.
const SPECIAL: &[u8] = b"\0\n\r\t\"'\\/*?[]{}(),:;=#!~@$%.-+ \x1b\x7f\x80\xc3\xef\xff";

pub(crate) struct Mutator {
    corpus: Vec<Vec<u8>>,
    tokens: Vec<Vec<u8>>,
    state: u64,
}

impl Mutator {
    /// Starts with these inputs. Their words are the dictionary.
    pub(crate) fn new(corpus: Vec<Vec<u8>>) -> Self {
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.@~!$%".contains(byte);
        let mut tokens: Vec<Vec<u8>> = corpus
            .iter()
            .flat_map(|seed| seed.split(move |byte| !is_word(byte)))
            .filter(|token| token.len() > 1)
            .map(<[u8]>::to_vec)
            .collect();
        tokens.sort();
        tokens.dedup();
        Self { corpus, tokens, state: 0x9E37_79B9_7F4A_7C15 }
    }

    /// Returns the next input: a seed, changed one to eight times.
    pub(crate) fn next(&mut self) -> Vec<u8> {
        let mut input = self.pick();
        for _ in 0..=self.below(8) {
            self.change(&mut input);
        }
        input.truncate(LONGEST);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let (from, to) = self.range(input.len());
        match self.below(8) {
            0 if !input.is_empty() => {
                let at = self.below(input.len());
                input[at] ^= 1 << self.below(8);
            }
            1 if !input.is_empty() => {
                let at = self.below(input.len());
                input[at] = SPECIAL[self.below(SPECIAL.len())];
            }
            2 => drop(input.drain(from..to)),
            3 => {
                let again = input[from..to].to_vec();
                input.splice(to..to, again);
            }
            4 => {
                let other = self.pick();
                let (start, end) = self.range(other.len());
                input.splice(from..to, other[start..end].iter().copied());
            }
            5 | 6 if !self.tokens.is_empty() => {
                let token = self.below(self.tokens.len());
                let token = self.tokens[token].clone();
                let end = if self.below(2) == 0 { from } else { to };
                input.splice(from..end, token);
            }
            _ => input.insert(from, SPECIAL[self.below(SPECIAL.len())]),
        }
    }

    fn pick(&mut self) -> Vec<u8> {
        let index = self.below(self.corpus.len());
        self.corpus[index].clone()
    }

    /// Returns a range within `length`, mostly a short one.
    fn range(&mut self, length: usize) -> (usize, usize) {
        let from = self.below(length + 1);
        let longest = if self.below(4) == 0 { length } else { 16 };
        (from, (from + self.below(longest + 1)).min(length))
    }

    /// Returns a number below `limit`, by xorshift.
    fn below(&mut self, limit: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        usize::try_from(self.state >> 33).unwrap_or(0) % limit
    }
}
