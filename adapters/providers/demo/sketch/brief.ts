import { dice, type Dice } from './ink.ts'
import { subjectOf, type Subject } from './subjects.ts'

export type Place = 'meadow' | 'forest' | 'mountains' | 'desert' | 'ocean' | 'city' | 'space' | 'deep'
export type Hour = 'day' | 'dawn' | 'sunset' | 'night'
export type Extra =
  | 'rain'
  | 'fog'
  | 'snow'
  | 'autumn'
  | 'stars'
  | 'moon'
  | 'rainbow'
  | 'aurora'
  | 'peaks'
  | 'flowers'
  | 'neon'
  | 'lake'

export type Actor = { subject: Subject; count: number; color?: string; accent?: string }

/** What a prompt asks to see, filled up by seeded chance where it is silent; `said` is what it did name. */
export type Brief = {
  actors: readonly Actor[]
  place: Place
  hour: Hour
  extras: ReadonlySet<Extra>
  wash?: string
  said: ReadonlySet<'cast' | 'place' | 'hour'>
}

/** Only this much of a prompt is read; the rest cannot cost anything. */
export const READ_LIMIT = 500

const PLACES: Readonly<Record<Place, string>> = {
  meadow: 'meadow field grass garden park farm prairie countryside hill hills valley pasture vineyard village',
  forest: 'forest woods woodland jungle grove rainforest taiga',
  mountains: 'mountain mountains alps alpine peak peaks summit himalaya fjord cliff valleys volcano everest fuji',
  desert: 'desert dune dunes sahara canyon egypt savanna savannah arid mesa oasis',
  ocean:
    'ocean sea beach coast coastal shore lake river island harbor harbour bay wave waves pond water lagoon surf tropical sailing',
  city: 'city cityscape town skyline street urban tokyo york london paris downtown skyscraper skyscrapers buildings metropolis cyberpunk rooftop',
  space:
    'space galaxy planet planets mars cosmic cosmos orbit nebula universe alien lunar asteroid saturn interstellar',
  deep: 'underwater undersea reef coral seabed submarine aquarium mermaid',
}
const HOURS: Readonly<Record<Hour, string>> = {
  night:
    'night midnight moonlit moonlight moon stars starry star dark neon cyberpunk lantern fireflies halloween aurora borealis northern-lights',
  sunset: 'sunset dusk twilight evening sundown golden-hour dramatic synthwave',
  dawn: 'dawn sunrise morning misty pastel',
  day: 'day noon sunny sun bright daylight afternoon summer midday rainbow',
}
const EXTRAS: Readonly<Record<Extra, string>> = {
  rain: 'rain rainy storm stormy thunder monsoon drizzle thunderstorm',
  fog: 'fog foggy mist misty haze hazy smoke',
  snow: 'snow snowy winter wintry ice icy arctic polar blizzard antarctica frozen glacier christmas snowfall snowman snowflake frost frosty',
  autumn: 'autumn fall harvest october thanksgiving',
  stars: 'stars starry star constellation cosmic',
  moon: 'moon moonlit moonlight lunar',
  rainbow: 'rainbow',
  aurora: 'aurora borealis northern-lights',
  peaks: 'mountain mountains alps alpine peak peaks summit himalaya fjord everest fuji volcano',
  neon: 'neon cyberpunk synthwave',
  lake: 'lake river pond fjord',
  flowers: 'flowers blossom blossoms wildflowers spring garden meadow',
}
const COLORS: ReadonlyMap<string, string> = new Map(
  Object.entries({
    red: '#d3402f',
    crimson: '#b8263b',
    scarlet: '#d9331f',
    orange: '#ef8330',
    yellow: '#f2c230',
    golden: '#eab23c',
    gold: '#eab23c',
    green: '#4f9d5b',
    emerald: '#2f9d72',
    ruby: '#c22f4f',
    sapphire: '#3560c0',
    lime: '#9acb45',
    teal: '#2b9c98',
    turquoise: '#39bdb4',
    cyan: '#42c3d9',
    blue: '#3f76c8',
    azure: '#4b9be0',
    navy: '#2b3f77',
    indigo: '#4a45a0',
    purple: '#8352b5',
    violet: '#8d5fd0',
    lavender: '#b6a2dc',
    magenta: '#cf4a9c',
    pink: '#ef8fb0',
    sakura: '#f2a7be',
    cherry: '#f2a7be',
    brown: '#8a5a3c',
    tan: '#cfa878',
    beige: '#e0cba8',
    cream: '#f3e6c9',
    white: '#f6f4ef',
    polar: '#f4f5f7',
    silver: '#c3cbd4',
    gray: '#8f98a3',
    grey: '#8f98a3',
    black: '#413e4c',
    copper: '#c2703f',
    rusty: '#b8582f',
  }),
)
const NUMBERS: ReadonlyMap<string, number> = new Map(
  Object.entries({
    a: 1,
    an: 1,
    one: 1,
    two: 2,
    couple: 2,
    pair: 2,
    three: 3,
    several: 3,
    four: 4,
    five: 5,
    many: 5,
    '2': 2,
    '3': 3,
    '4': 4,
    '5': 5,
  }),
)
const AMBIENCE =
  'sky skies light lights background glow sunlight tones palette mood theme clouds color colors colour haze horizon'
const SCENERY = new Set([...Object.values(PLACES), ...Object.values(HOURS), AMBIENCE].join(' ').split(' '))
const JOINTS = new Set(
  'in on at with and of under over by near the from to beside behind through against , ; .'.split(' '),
)

/** Reads a prompt as nouns with their colours and numbers, a place, an hour and the weather. Linear, and never looks past READ_LIMIT. */
export function readPrompt(prompt: string, seed: string): Brief {
  const words = wordsOf(prompt)
  const chance = dice(seed)
  const { actors, wash } = castOf(words)
  const extras = new Set((Object.keys(EXTRAS) as Extra[]).filter((extra) => mentions(words, EXTRAS[extra]) >= 0))
  const named = earliest(words, PLACES)
  const place = placeFor(named, actors, extras, chance)
  const hourNamed = earliest(words, HOURS)
  const hour = hourNamed ?? chance.pick<Hour>(['day', 'day', 'dawn', 'sunset'])
  const shown = actors.length > 0 ? actors : companion(place, named !== undefined, extras, chance)
  const said = new Set([
    ...(actors.length > 0 ? ['cast' as const] : []),
    ...(named ? ['place' as const] : []),
    ...(hourNamed ? ['hour' as const] : []),
  ])
  return { actors: shown, place, hour, extras, said, ...(wash ? { wash } : {}) }
}

/** The words of a prompt in lower case and without accents, digits and punctuation one by one. */
export function wordsOf(prompt: string): readonly string[] {
  const text = prompt.slice(0, READ_LIMIT).normalize('NFKD').toLowerCase().replace('on the moon', 'lunar')
  return text.match(/[a-z]+|\d|[,;.]/g) ?? []
}

/**
 * Up to three subjects in the order of the prompt; of two nouns in a row ("pirate ship") the last one counts.
 * `wash` is a colour that was said of the sky, of the light or of nothing at all.
 */
function castOf(words: readonly string[]): { actors: Actor[]; wash: string | undefined } {
  const actors: Actor[] = []
  let wash: string | undefined
  let color: string | undefined
  let count = 1
  let lastAt = -2
  for (const [at, word] of words.entries()) {
    const found = isAdjective(words, at) ? undefined : subjectOf(word)
    if (found) {
      const compound = at - lastAt === 1 ? actors.pop() : undefined
      const subject =
        compound && found.subject.name === 'tree' && compound.subject.home === 'back' ? compound.subject : found.subject
      const many = found.plural && count === 1 ? 3 : count
      const worn = color ?? compound?.color
      const known = actors.some((actor) => actor.subject === subject)
      const fresh = !known && actors.length < 3
      if (fresh) actors.push({ subject, count: Math.max(many, compound?.count ?? 1), ...(worn ? { color: worn } : {}) })
      lastAt = fresh ? at : -2
      color = undefined
      count = 1
      continue
    }
    count = NUMBERS.get(word) ?? count
    if (color && SCENERY.has(word)) {
      wash ??= color
      color = undefined
    }
    if (color && JOINTS.has(word)) {
      dress(actors.at(-1), color)
      color = undefined
    }
    color = COLORS.get(word) ?? color
  }
  if (color) dress(actors.at(-1), color)
  return { actors, wash: wash ?? (actors.length === 0 ? color : undefined) }
}

/** "orange" in "an orange cat" is a colour; alone it is a fruit. */
function isAdjective(words: readonly string[], at: number): boolean {
  if (!COLORS.has(words[at] as string)) return false
  const ahead = words.slice(at + 1, at + 4)
  const joint = ahead.findIndex((word) => JOINTS.has(word))
  return (joint < 0 ? ahead : ahead.slice(0, joint)).some((word) => subjectOf(word) !== undefined)
}

/** A colour left over after its noun ("a woman in red", "a cat with green eyes") goes to clothes, or to the small parts. */
function dress(actor: Actor | undefined, color: string): void {
  if (!actor) return
  if (actor.subject.dressed) actor.color ??= color
  else actor.accent ??= color
}

function placeFor(named: Place | undefined, actors: readonly Actor[], extras: ReadonlySet<Extra>, chance: Dice): Place {
  const homes = new Set(actors.map((actor) => actor.subject.home))
  if (homes.has('deep') && (named === undefined || named === 'ocean')) return 'deep'
  if (homes.has('afloat') && named !== 'deep') return 'ocean'
  if (named === 'mountains' && extras.has('lake')) return 'ocean'
  if (named) return named
  if (actors.some((actor) => /^(astronaut|rocket)$/.test(actor.subject.name))) return 'space'
  if (actors.some((actor) => actor.subject.name === 'lighthouse')) return 'ocean'
  if (actors.some((actor) => /^(cactus|lion)$/.test(actor.subject.name))) return 'desert'
  if (actors.some((actor) => actor.subject.name === 'palm')) return 'ocean'
  if (extras.has('snow')) return chance.pick<Place>(['forest', 'mountains', 'meadow'])
  if (actors.length > 0) return chance.pick<Place>(['meadow', 'meadow', 'forest', 'mountains'])
  return chance.pick<Place>(['meadow', 'mountains', 'ocean', 'forest', 'desert', 'city'])
}

/** Someone to look at where the prompt named nobody; a prompt that named a place may also be left empty. */
function companion(place: Place, named: boolean, extras: ReadonlySet<Extra>, chance: Dice): Actor[] {
  const fitting: Readonly<Record<Place, readonly string[]>> = {
    meadow: ['cabin', 'tree', 'windmill', 'balloon', 'deer'],
    forest: ['cabin', 'deer', 'fox', 'owl'],
    mountains: ['cabin', 'balloon', 'eagle', 'deer'],
    desert: ['cactus', 'balloon', 'horse'],
    ocean: extras.has('lake') ? ['boat', 'swan', 'duck'] : ['boat', 'boat', 'lighthouse', 'palm'],
    city: ['balloon', 'bicycle', 'car', 'person'],
    space: ['rocket', 'astronaut'],
    deep: ['fish', 'turtle', 'jellyfish'],
  }
  if (named && chance.chance(0.2)) return []
  const { subject } = subjectOf(chance.pick(fitting[place])) as { subject: Subject }
  return [{ subject, count: 1 }]
}

function mentions(words: readonly string[], list: string): number {
  const wanted = new Set(list.split(' '))
  return words.findIndex((word, at) => wanted.has(word) || wanted.has(`${word}-${words[at + 1]}`))
}

/** The key whose list holds the earliest of the words. */
export function earliest<Key extends string>(
  words: readonly string[],
  table: Readonly<Record<Key, string>>,
): Key | undefined {
  const found = (Object.keys(table) as Key[])
    .map((key) => [key, mentions(words, table[key])] as const)
    .filter(([, at]) => at >= 0)
  return found.sort(([, a], [, b]) => a - b)[0]?.[0]
}
