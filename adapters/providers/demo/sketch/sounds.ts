/** Sound effects by what the words name: each is a recipe, and several sound together. The same words make the same sound. */
import { dice as seeded, type Dice } from './ink.ts'
import {
  band,
  echoed,
  held,
  high,
  low,
  type Mix,
  noise,
  place,
  render,
  shaped,
  silence,
  stereo,
  injected,
  type Track,
  wave,
} from './synth.ts'

type Making = { readonly mix: Mix; readonly seconds: number; readonly dice: Dice }
/** `usual` is how long it lasts where nobody says. */
type Recipe = { readonly words: RegExp; readonly usual: number; readonly room: number; make(making: Making): void }

/** Puts a sound again and again, about every so many seconds. */
function often(
  { mix, seconds, dice }: Making,
  { every, spread = 0.3, from = 0 }: { every: number; spread?: number; from?: number },
  sound: (count: number) => Track,
  gain = 1,
): void {
  let count = 0
  for (let at = from; at < seconds - 0.05; at += every * dice.between(1 - spread, 1 + spread)) {
    place(mix, sound(count++), { at, pan: dice.between(-0.6, 0.6), gain: gain * dice.between(0.7, 1) })
  }
}

/** A sound that is there all the time, another one on each side. */
function bed({ mix }: Making, sound: () => Track, gain = 1): void {
  place(mix, sound(), { at: 0, pan: -0.7, gain })
  place(mix, sound(), { at: 0, pan: 0.7, gain })
}

/** Partials of a struck body: how high, how loud, how long. */
function rung(pitch: number, partials: readonly (readonly [number, number, number])[], seconds: number): Track {
  return render(
    seconds,
    (time) =>
      partials.reduce(
        (sum, [ratio, loud, long]) => sum + loud * Math.exp(-time / long) * wave(pitch * ratio, time),
        0,
      ) * Math.min(1, time / 0.002),
  )
}

const BELL = [
  [0.5, 0.4, 1.9],
  [1, 1, 1.4],
  [1.19, 0.5, 1.1],
  [2, 0.5, 0.7],
  [2.74, 0.3, 0.5],
  [4.1, 0.2, 0.25],
] as const

const PEAL = [1, 0.84, 1.12, 0.75]

/** A low note whose pitch falls, for drums, steps and blows. */
const thud = (from: number, to: number, decay: number): Track => {
  let phase = 0
  return render(decay * 5, (time) => {
    phase += (2 * Math.PI * (to + (from - to) * Math.exp(-time / 0.04))) / 32_000
    return Math.sin(phase) * injected(0.003, decay)(time)
  })
}

const rumble = (seconds: number, dice: Dice, decay: number): Track =>
  shaped(
    low(low(noise(seconds, dice), 140), 160),
    (time) => 9 * injected(0.05, decay)(time) * (0.7 + 0.3 * wave(3.1, time)),
  )

const recipes: readonly Recipe[] = [
  {
    words: /\b(rain|drizzle|downpour|shower)/i,
    usual: 6,
    room: 0.1,
    make(making) {
      const { seconds, dice } = making
      bed(making, () => high(low(noise(seconds, dice), 5200), 700), 0.35)
      often(
        making,
        { every: 0.025, spread: 0.9 },
        () => shaped(band(noise(0.03, dice), dice.between(1800, 4500), 6), injected(0.001, 0.006)),
        0.5,
      )
    },
  },
  {
    words: /\b(thunder|storm|lightning)/i,
    usual: 6,
    room: 0.5,
    make: (making) => often(making, { every: 5, from: 0.3 }, () => rumble(4, making.dice, 1.1), 1.2),
  },
  {
    words: /\b(wind|breeze|gust|blizzard|howl)/i,
    usual: 6,
    room: 0.1,
    make(making) {
      const { seconds, dice } = making
      bed(making, () => {
        const [slow, phase] = [dice.between(0.12, 0.25), dice.between(0, 6)]
        const gust = (time: number) => 0.55 + 0.3 * wave(slow, time, phase) + 0.15 * wave(slow * 2.7, time, phase)
        return shaped(
          band(noise(seconds, dice), (time) => 260 + 520 * gust(time), 3),
          (time) => 1.4 * gust(time),
        )
      })
    },
  },
  {
    words: /\b(ocean|sea|waves?|surf|beach)\b/i,
    usual: 8,
    room: 0.1,
    make(making) {
      const { seconds, dice } = making
      bed(making, () => {
        const phase = dice.between(-0.4, 0.4)
        const swell = (time: number) => (0.5 - 0.5 * Math.cos(0.9 * time + phase)) ** 2
        return shaped(
          low(noise(seconds, dice), (time) => 400 + 3200 * swell(time)),
          (time) => 0.15 + 0.85 * swell(time),
        )
      })
    },
  },
  {
    words: /\b(fire|campfire|flames?|burning|crackl\w*)/i,
    usual: 6,
    room: 0.05,
    make(making) {
      const { seconds, dice } = making
      bed(making, () => low(noise(seconds, dice), 420), 0.9)
      often(
        making,
        { every: 0.09, spread: 0.95 },
        () => shaped(high(noise(0.02, dice), 1500), injected(0.0005, dice.between(0.002, 0.006))),
        0.8,
      )
    },
  },
  {
    words: /\b(river|stream|brook|creek|waterfall|water)\b/i,
    usual: 6,
    room: 0.1,
    make(making) {
      const { seconds, dice } = making
      bed(making, () => band(noise(seconds, dice), 900, 1), 0.35)
      often(
        making,
        { every: 0.06, spread: 0.8 },
        () => {
          const from = dice.between(500, 1300)
          return render(0.07, (time) => wave(from * (1 + 4 * time), time) * injected(0.004, 0.018)(time))
        },
        0.35,
      )
    },
  },
  {
    words: /\b(bells?|chimes?|gong|church)\b/i,
    usual: 5,
    room: 0.4,
    make(making) {
      const pitch = making.dice.between(380, 720)
      often(making, { every: 1.6, spread: 0.05 }, (count) => rung(pitch * (PEAL[count % 4] ?? 1), BELL, 3.5))
    },
  },
  {
    words: /\b(engine|motor|car|truck|motorcycle|tractor|helicopter)/i,
    usual: 5,
    room: 0.1,
    make(making) {
      const { seconds, dice, mix } = making
      const turning = (time: number) => 24 + 22 * Math.min(1, time / (0.5 * seconds)) + 1.5 * wave(0.7, time)
      let phase = 0
      const body = render(seconds, (time) => {
        phase += turning(time) / 32_000
        const turn = phase % 1
        return (1 - 2 * turn) * 0.6 + Math.sin(4 * Math.PI * phase) * 0.4 + (turn < 0.12 ? 0.7 : 0)
      })
      place(mix, low(low(body, 420), 700), { at: 0 })
      bed(
        making,
        () => shaped(band(noise(seconds, dice), 300, 2), (time) => 0.4 * (0.6 + 0.4 * wave(turning(time), time))),
        0.5,
      )
    },
  },
  {
    words: /\b(foot ?steps?|walk\w*|running|steps)\b/i,
    usual: 4,
    room: 0.2,
    make(making) {
      const { dice, mix, seconds } = making
      for (let at = 0.1, count = 0; at < seconds - 0.15; at += 0.52 * dice.between(0.95, 1.05), count++) {
        const pan = count % 2 === 0 ? -0.25 : 0.25
        place(mix, thud(150, 60, 0.03), { at, pan })
        place(mix, shaped(band(noise(0.09, dice), 1300, 1), injected(0.002, 0.02)), { at: at + 0.02, pan, gain: 0.5 })
      }
    },
  },
  {
    words: /\b(explo\w+|boom|blast|bomb|cannon|gunshot)/i,
    usual: 4,
    room: 0.5,
    make({ mix, dice, seconds }) {
      const long = Math.max(0.5, Math.min(4, seconds - 0.05))
      place(
        mix,
        shaped(
          low(noise(long, dice), (time) => 90 + 6000 * Math.exp(-time / 0.12)),
          injected(0.002, 0.5),
        ),
        { at: 0.05, gain: 2.5 },
      )
      place(mix, thud(110, 32, 0.5), { at: 0.05, gain: 1.2 })
    },
  },
  {
    words: /\b(laser|zap|blaster|sci-?fi|raygun)/i,
    usual: 2,
    room: 0.2,
    make: (making) =>
      often(making, { every: 0.6 }, () => {
        let phase = 0
        const from = making.dice.between(1800, 2800)
        return render(
          0.4,
          (time) =>
            Math.sign(Math.sin((phase += (2 * Math.PI * (120 + from * Math.exp(-time / 0.09))) / 32_000))) *
            injected(0.002, 0.12)(time) *
            0.5,
        )
      }),
  },
  {
    words: /\b(siren|alarm|alert|ambulance|police)/i,
    usual: 5,
    room: 0.3,
    make({ mix, seconds }) {
      let phase = 0
      place(
        mix,
        low(
          render(
            seconds,
            (time) =>
              Math.sin((phase += (2 * Math.PI * (760 + 260 * wave(0.55, time))) / 32_000)) + 0.3 * Math.sin(3 * phase),
          ),
          2600,
        ),
        { at: 0 },
      )
    },
  },
  {
    words: /\b(birds?|tweet\w*|chirp\w*|songbird|forest|jungle)/i,
    usual: 5,
    room: 0.35,
    make: (making) =>
      often(
        making,
        { every: 0.55, spread: 0.7 },
        () => {
          const [base, bend, beat] = [
            making.dice.between(2200, 4200),
            making.dice.between(-1200, 1500),
            making.dice.between(9, 26),
          ]
          let phase = 0
          return render(
            0.28,
            (time) =>
              Math.sin((phase += (2 * Math.PI * (base + bend * time * 3 + 260 * wave(beat, time))) / 32_000)) *
              held(0.28, 0.03)(time) *
              (0.6 + 0.4 * wave(beat, time)),
          )
        },
        0.6,
      ),
  },
  {
    words: /\b(clock|tick\w*|watch|timer)\b/i,
    usual: 5,
    room: 0.2,
    make: (making) =>
      often(making, { every: 0.5, spread: 0, from: 0.1 }, (count) =>
        rung(
          count % 2 === 0 ? 2300 : 1900,
          [
            [1, 1, 0.012],
            [2.6, 0.4, 0.006],
          ],
          0.1,
        ),
      ),
  },
  {
    words: /\b(knock\w*|door|bang\w*)\b/i,
    usual: 3,
    room: 0.35,
    make: (making) => often(making, { every: 0.28, spread: 0.08, from: 0.2 }, () => thud(240, 110, 0.045)),
  },
  {
    words: /\b(applause|clap\w*|crowd|cheer\w*|audience)/i,
    usual: 5,
    room: 0.3,
    make: (making) =>
      often(
        making,
        { every: 0.012, spread: 0.9 },
        () => shaped(band(noise(0.03, making.dice), making.dice.between(900, 2200), 2), injected(0.001, 0.008)),
        0.7,
      ),
  },
  {
    words: /\b(heart ?beats?|heart|pulse)\b/i,
    usual: 5,
    room: 0.1,
    make: (making) =>
      often(making, { every: 0.9, spread: 0.02, from: 0.1 }, () => {
        const beat = silence(0.6)
        for (const [at, gain] of [
          [0, 1],
          [0.28, 0.7],
        ] as const)
          for (const [i, value] of thud(70, 42, 0.06).entries())
            if (at * 32_000 + i < beat.length) beat[at * 32_000 + i] = (beat[at * 32_000 + i] as number) + gain * value
        return beat
      }),
  },
  {
    words: /\b(glass|shatter\w*|crash|break\w*|smash\w*)/i,
    usual: 2.5,
    room: 0.25,
    make(making) {
      const { mix, dice, seconds } = making
      place(mix, shaped(high(noise(0.4, dice), 2000), injected(0.001, 0.06)), { at: 0.05 })
      for (let piece = 0; piece < 24; piece++) {
        const at = 0.06 + dice.next() ** 2 * Math.min(1.2, seconds)
        place(
          mix,
          rung(
            dice.between(2200, 7000),
            [
              [1, 1, 0.06],
              [1.6, 0.5, 0.03],
            ],
            0.3,
          ),
          { at, pan: dice.between(-0.8, 0.8), gain: dice.between(0.1, 0.4) },
        )
      }
    },
  },
  {
    words: /\b(drips?|drops?|droplets?|dripping|cave)\b/i,
    usual: 4,
    room: 0.6,
    make: (making) =>
      often(making, { every: 0.8, spread: 0.5, from: 0.1 }, () => {
        const from = making.dice.between(700, 1300)
        return render(0.15, (time) => wave(from * (1 + 3 * time), time) * injected(0.003, 0.035)(time))
      }),
  },
  {
    words: /\b(phone|ring\w*|telephone|call)\b/i,
    usual: 4,
    room: 0.1,
    make({ mix, seconds }) {
      place(
        mix,
        render(seconds, (time) =>
          time % 2 < 1 ? (wave(440, time) + wave(480, time)) * (0.6 + 0.4 * Math.sign(wave(20, time))) : 0,
        ),
        { at: 0, gain: 0.5 },
      )
    },
  },
  {
    words: /\b(coins?|pick ?up|power ?up|level ?up|reward|notification|ding|success)\b/i,
    usual: 1.5,
    room: 0.2,
    make({ mix, dice }) {
      const base = dice.pick([660, 740, 880])
      for (const [step, ratio] of [1, 1.335, 2].entries())
        place(
          mix,
          rung(
            base * ratio,
            [
              [1, 1, 0.25],
              [2, 0.4, 0.12],
            ],
            0.8,
          ),
          { at: 0.05 + 0.09 * step, gain: 0.6 },
        )
    },
  },
  {
    words: /\b(clicks?|button|keyboard|typing|typewriter)\b/i,
    usual: 3,
    room: 0.1,
    make: (making) =>
      often(making, { every: 0.16, spread: 0.6 }, () =>
        shaped(band(noise(0.02, making.dice), making.dice.between(1800, 3200), 3), injected(0.0005, 0.004)),
      ),
  },
  {
    words: /\b(crickets?|insects?|night|cicadas?)\b/i,
    usual: 5,
    room: 0.2,
    make: (making) =>
      often(
        making,
        { every: 0.7, spread: 0.2 },
        () => {
          const pitch = making.dice.between(4100, 4700)
          return render(0.4, (time) => wave(pitch, time) * Math.max(0, wave(28, time)) * held(0.4, 0.05)(time))
        },
        0.35,
      ),
  },
  {
    words: /\b(whoosh|swoosh|swish|sword|braam|impact|transition|riser)/i,
    usual: 2,
    room: 0.35,
    make: (making) => whoosh(making),
  },
]

/** Air that rushes by, for what has a name, and for words that name nothing known here. */
function whoosh({ mix, seconds, dice }: Making): void {
  const long = Math.min(seconds, 2.5)
  const arc = (time: number) => Math.sin(Math.PI * Math.min(1, time / long))
  const air = shaped(
    band(noise(long, dice), (time) => 200 + 2600 * arc(time) ** 2, 2),
    (time) => arc(time) ** 2,
  )
  place(mix, air, { at: 0, pan: dice.between(-0.5, 0.5) })
  const pitch = dice.between(70, 160)
  place(
    mix,
    render(long, (time) => (wave(pitch, time) + 0.5 * wave(pitch * 1.5, time)) * arc(time) * 0.35),
    { at: 0 },
  )
}

/** What is heard, and the names of what was recognised. */
export function soundOf({ text, seconds }: { text: string; seconds?: number | undefined }): {
  mix: Mix
  seconds: number
  names: readonly string[]
} {
  const found = recipes.flatMap((recipe) => {
    const name = recipe.words.exec(text)?.[0]
    return name === undefined ? [] : [{ ...recipe, name: name.toLowerCase() }]
  })
  const chosen = found.slice(0, MAX_AT_ONCE)
  const long = seconds ?? Math.max(0, ...chosen.map(({ usual }) => usual))
  const making = { seconds: long || 2, dice: seeded(text) }
  const mix = stereo(making.seconds)
  for (const { make } of chosen) make({ ...making, mix })
  if (chosen.length === 0) whoosh({ ...making, mix })
  const room = Math.max(0.1, ...chosen.map((recipe) => recipe.room))
  return { mix: echoed(mix, room), seconds: making.seconds, names: chosen.map(({ name }) => name) }
}

const MAX_AT_ONCE = 4
