"""What tests read of pages is what stands there."""

from tests.docs.pages import blocks_of, commands_of

PAGE = """# A page

<!-- file: mine.toml -->
```toml
seed = 1
```

```console
$ fedfleet run mine.toml \\
    --out there
10.8 days
..
$ fedfleet report there
```

<!-- runs: soak -->

```console
for i in 1 2; do
  echo $i
done
```
"""


def test_blocks_have_their_language_mark_and_line():
    result = blocks_of(PAGE, "a.md")
    assert [(b.place, b.language, b.mark, b.value) for b in result] == [
        ("a.md:4", "toml", "file", "mine.toml"),
        ("a.md:8", "console", "", ""),
        ("a.md:18", "console", "runs", "soak"),
    ]
    assert result[0].text == "seed = 1\n"


def test_a_dollar_tells_commands_from_what_they_print():
    first, second = commands_of(blocks_of(PAGE, "a.md")[1])
    assert first.line == "fedfleet run mine.toml \\\n    --out there"
    assert first.said == "10.8 days\n.."
    assert (second.line, second.said, second.script) == ("fedfleet report there", "", False)


def test_without_dollars_a_block_is_one_script():
    (script,) = commands_of(blocks_of(PAGE, "a.md")[2])
    assert script.script
    assert script.line.count("\n") == 3
