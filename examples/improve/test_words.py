import unittest

from words import top_words


class TopWords(unittest.TestCase):
    def test_the_most_frequent_word_is_first(self):
        assert top_words("b a a c a b", 2) == ["a", "b"]

    def test_equally_frequent_words_are_in_alphabetical_order(self):
        assert top_words("d c b a", 3) == ["a", "b", "c"]

    def test_a_text_without_words_has_none(self):
        assert top_words("  ") == []

    def test_capital_letters_make_no_difference(self):
        assert top_words("The end of the the", 1) == ["the"]
        assert top_words("A a b", 1) == ["a"]


if __name__ == "__main__":
    unittest.main()
