import * as creatures from './creatures.ts'
import type { Draw } from './creatures.ts'
import * as people from './people.ts'
import * as things from './things.ts'

/** Where a subject belongs: on the ground, further back on it, afloat, below the waves, in the air. */
export type Home = 'land' | 'back' | 'afloat' | 'deep' | 'sky'

/** `reach` is half its width where `size` is 1; `dressed` says that a colour left over belongs to its clothes. */
export type Subject = {
  name: string
  draw: Draw
  home: Home
  size: number
  reach: number
  main: string
  light: string
  accent: string
  dressed: boolean
}

type Row = readonly [draw: Draw, home: Home, size: number, colors: string, words: string]

/** Everything that can be drawn. `size` is against a fox; colours are main, light, accent; the first word names the row. */
const ROWS: readonly Row[] = [
  [creatures.fox, 'land', 1, '#dd6230 #fff4e6 #f2b544', 'fox vixen'],
  [creatures.fox, 'land', 1.05, '#8b93a3 #f1f1ee #f2b544', 'wolf wolves coyote husky'],
  [creatures.cat, 'land', 0.95, '#e0a15c #fff4e6 #eba3a3', 'cat kitten kitty feline tabby'],
  [creatures.tiger, 'land', 1.05, '#e88a2f #fff4e6 #eba3a3', 'tiger leopard cheetah jaguar'],
  [creatures.lion, 'land', 1.05, '#e3a94f #fbeccb #f2b544', 'lion lioness'],
  [
    creatures.dog,
    'land',
    0.95,
    '#c08552 #fff0dd #d5453f',
    'dog puppy hound retriever labrador corgi terrier poodle dachshund',
  ],
  [creatures.rabbit, 'land', 0.85, '#c9b29b #fff7ee #e69595', 'rabbit bunny hare'],
  [creatures.bear, 'land', 1.1, '#8a5a3c #d9b48c #f2b544', 'bear grizzly teddy beaver monkey gorilla'],
  [creatures.bear, 'land', 0.85, '#a5a3ad #eee4e4 #f2b544', 'mouse koala hamster rat raccoon'],
  [creatures.bear, 'land', 1, '#efa6b3 #f9cdd3 #f2b544', 'pig piglet hippo'],
  [creatures.panda, 'land', 1.05, '#f4f1ea #fbf9f4 #f2b544', 'panda'],
  [creatures.deer, 'land', 1.1, '#b9783f #f6e2c3 #f2b544', 'deer stag elk moose reindeer fawn antelope'],
  [creatures.deer, 'land', 1.15, '#e6b455 #a5673a #f2b544', 'giraffe'],
  [creatures.horse, 'land', 1.15, '#9c6238 #f6e2c3 #4a3228', 'horse pony stallion mustang camel donkey llama'],
  [creatures.unicorn, 'land', 1.15, '#f1ebf6 #ffffff #c58bd9', 'unicorn pegasus'],
  [creatures.cow, 'land', 1.1, '#f2ede4 #f3c9c0 #333333', 'cow bull calf ox buffalo goat zebra'],
  [creatures.sheep, 'land', 1, '#4f4350 #fbf8f0 #f2b544', 'sheep lamb alpaca'],
  [creatures.elephant, 'land', 1.25, '#8f9aa8 #f7f1e6 #d5453f', 'elephant mammoth rhino'],
  [creatures.penguin, 'land', 0.9, '#2f3a58 #f8f6f0 #f0a03c', 'penguin puffin'],
  [creatures.owl, 'land', 1.05, '#8b6544 #ead3b1 #e8963a', 'owl'],
  [
    creatures.bird,
    'land',
    0.95,
    '#3f7fc4 #f5e6cf #eda53b',
    'bird robin sparrow finch parrot bluebird hummingbird crow raven songbird toucan',
  ],
  [creatures.eagle, 'sky', 0.75, '#6a4a35 #f8f3e8 #f0b03c', 'eagle hawk falcon condor phoenix vulture'],
  [creatures.butterfly, 'sky', 0.62, '#e8763a #fff1dc #f6c453', 'butterfly moth bee dragonfly fairy'],
  [creatures.duck, 'afloat', 0.7, '#f3c744 #fff1dc #ea8a35', 'duck duckling goose'],
  [creatures.swan, 'afloat', 0.95, '#f6f4ef #ffffff #ea8a35', 'swan pelican flamingo'],
  [creatures.whale, 'afloat', 1.15, '#3f6fa8 #dfeaf0 #f2b544', 'whale orca dolphin narwhal'],
  [creatures.fish, 'deep', 0.7, '#ef8a3b #fff1dc #f4b942', 'fish goldfish koi clownfish salmon tuna'],
  [creatures.fish, 'deep', 0.85, '#7f93a8 #eef3f5 #5f7389', 'shark'],
  [creatures.jellyfish, 'deep', 0.85, '#e08ac0 #fbe3f2 #b98be0', 'jellyfish octopus squid'],
  [creatures.turtle, 'land', 0.85, '#5f8f4e #b7c973 #f2b544', 'turtle tortoise snail'],
  [creatures.frog, 'land', 0.8, '#6fae4f #dfe9a8 #f2b544', 'frog toad'],
  [creatures.dragon, 'land', 1.15, '#4f9d6b #f1e3a8 #d9603f', 'dragon dinosaur wyvern monster creature'],
  [
    people.person,
    'land',
    1.1,
    '#c8503c #f7ead6 #e9b44c',
    'person man men woman women girl boy child children kid people lady portrait human',
  ],
  [
    people.person,
    'land',
    1.1,
    '#3f6f8f #f7ead6 #d9674a',
    'traveler hiker farmer chef doctor teacher dancer artist musician explorer family runner',
  ],
  [
    people.person,
    'land',
    1.1,
    '#4a4658 #f7ead6 #c8503c',
    'samurai ninja warrior detective player monk soldier sailor pirate guy',
  ],
  [people.astronaut, 'land', 1.1, '#eef0f4 #d9dfe8 #ef8a3b', 'astronaut cosmonaut spaceman diver'],
  [people.wizard, 'land', 1.1, '#5a4a9c #f1e6ff #e9b44c', 'wizard witch mage sorcerer magician'],
  [people.royal, 'land', 1.1, '#9c3555 #f7ead6 #e9b44c', 'king queen prince princess emperor knight'],
  [people.robot, 'land', 1.05, '#7fa3b5 #eef3f0 #f0803c', 'robot android droid cyborg mech machine ai computer bot'],
  [people.snowman, 'land', 1.05, '#d5453f #f7ead6 #d5453f', 'snowman'],
  [
    things.cabin,
    'back',
    1.15,
    '#b9694a #fbeedb #7b3f4b',
    'cabin house cottage hut home lodge barn farmhouse chalet inn shop cafe village',
  ],
  [
    things.castle,
    'back',
    1.4,
    '#c9b79f #efe3cf #b5495b',
    'castle fortress palace kingdom citadel temple cathedral church',
  ],
  [things.lighthouse, 'back', 1.35, '#d5503f #fbf4e6 #e9b44c', 'lighthouse tower beacon'],
  [things.windmill, 'back', 1.35, '#efe3cf #fdf6e8 #b5495b', 'windmill mill turbine'],
  [things.boat, 'afloat', 1, '#c8503c #fff4e0 #e9b44c', 'boat ship sailboat yacht sail canoe ferry vessel sailing'],
  [things.rocket, 'sky', 1.05, '#d9503f #ffffff #f0b03c', 'rocket spaceship spacecraft shuttle starship ufo satellite'],
  [things.balloon, 'sky', 0.95, '#d9503f #fff1dc #f0b03c', 'balloon airship zeppelin blimp'],
  [things.plane, 'sky', 0.7, '#4a83bd #ffffff #f0b03c', 'plane airplane aircraft jet aeroplane helicopter drone'],
  [
    things.car,
    'land',
    0.85,
    '#d9503f #fff1dc #f0b03c',
    'car automobile truck van bus taxi jeep vehicle sportscar motorcycle',
  ],
  [things.train, 'land', 1, '#3f7f74 #fff1dc #d9503f', 'train locomotive tram railway'],
  [things.bicycle, 'land', 0.95, '#2f9c95 #f4efe4 #8a5a3c', 'bicycle bike cyclist cycling'],
  [things.tree, 'back', 1.35, '#5d9a52 #f4f7c9 #f2c14e', 'tree oak maple bonsai willow'],
  [things.tree, 'back', 1.35, '#f0a9bf #ffffff #fbd7e0', 'sakura blossom'],
  [things.pine, 'back', 1.4, '#3f7d5c #e9f4e6 #f2c14e', 'pine fir spruce conifer'],
  [things.palm, 'back', 1.35, '#4a9a5f #e9f4e6 #7a4f2b', 'palm coconut'],
  [things.cactus, 'land', 1.1, '#4f9a63 #e9f4e6 #ef6f8e', 'cactus cacti succulent'],
  [things.flower, 'land', 1, '#e8607a #fff1dc #f4b942', 'flower lily lotus dahlia poppy orchid bouquet'],
  [things.flower, 'land', 1.1, '#f5bd2f #fff1dc #6b4128', 'sunflower'],
  [things.flower, 'land', 1, '#c8324a #fff1dc #8f1f3a', 'rose peony'],
  [things.flower, 'land', 1, '#f8f5ee #fff1dc #f4b942', 'daisy chamomile edelweiss'],
  [things.tulip, 'land', 0.95, '#e2574c #fff1dc #f4b942', 'tulip crocus'],
  [things.mushroom, 'land', 0.85, '#d9483f #fff4e6 #f4b942', 'mushroom toadstool fungus'],
  [things.cup, 'land', 0.8, '#d9674a #fff4e6 #fbe3c4', 'cup coffee tea mug cappuccino latte espresso teapot'],
  [
    things.fruit,
    'land',
    0.75,
    '#d9483f #fff4e6 #f4b942',
    'apple fruit orange peach plum tomato cherries pear lemon pumpkin',
  ],
  [things.crystal, 'land', 0.95, '#7a8fe0 #f4f6ff #e08ac0', 'crystal gem diamond jewel'],
]

/** Half the width of those that are wider than they are tall. */
const REACHES: ReadonlyMap<Draw, number> = new Map([
  [creatures.eagle, 106],
  [creatures.whale, 88],
  [things.plane, 86],
  [creatures.dragon, 80],
  [things.train, 76],
  [creatures.butterfly, 72],
  [creatures.fish, 70],
  [things.car, 68],
  [creatures.turtle, 66],
  [creatures.elephant, 64],
  [things.bicycle, 64],
  [creatures.duck, 62],
  [things.boat, 60],
])

const BY_WORD: ReadonlyMap<string, Subject> = new Map(
  ROWS.flatMap(([draw, home, size, colors, list]) => {
    const [main, light, accent] = colors.split(' ') as [string, string, string]
    const words = list.split(' ')
    const dressed = draw === people.person || draw === people.wizard || draw === people.royal
    const reach = REACHES.get(draw) ?? 54
    const subject: Subject = { name: words[0] as string, draw, home, size, reach, main, light, accent, dressed }
    return words.map((word) => [word, subject] as const)
  }),
)

/** The subject a word stands for, singular or plural. */
export function subjectOf(word: string): { subject: Subject; plural: boolean } | undefined {
  const exact = BY_WORD.get(word)
  if (exact) return { subject: exact, plural: /^(men|women|children|people|wolves|cacti|family|village)$/.test(word) }
  const stems = [word.replace(/ies$/, 'y'), word.replace(/s$/, ''), word.replace(/es$/, '')]
  const subject = stems.map((stem) => BY_WORD.get(stem)).find((found) => found !== undefined)
  return subject ? { subject, plural: true } : undefined
}
