/** Music by what the words ask for: tempo, scale, chords and instruments from key words, a melody from chance. The same words make the same piece. */
import { dice as seeded, type Dice } from './ink.ts'
import {
  band,
  echoed,
  high,
  low,
  type Mix,
  noise,
  place,
  render,
  shaped,
  stereo,
  injected,
  type Track,
  wave,
} from './synth.ts'

type Instrument = 'piano' | 'pluck' | 'bells' | 'square' | 'pad' | 'strings'
type Style = {
  readonly words: RegExp
  readonly tempo: readonly [number, number]
  readonly mode: 'major' | 'minor' | 'dorian'
  readonly lead: Instrument
  readonly drums: 'none' | 'soft' | 'four' | 'rock'
  readonly swing?: number
  readonly beats?: 3 | 4
}

const STYLES: readonly Style[] = [
  { words: /\b(waltz|carousel|music box)/i, tempo: [120, 140], mode: 'major', lead: 'bells', drums: 'none', beats: 3 },
  {
    words: /\b(8-?bit|chip ?tune|arcade|retro game|video game)/i,
    tempo: [130, 150],
    mode: 'major',
    lead: 'square',
    drums: 'four',
  },
  {
    words: /\b(techno|house|edm|dance|club|electro\w*|synth ?wave|trance)/i,
    tempo: [120, 130],
    mode: 'minor',
    lead: 'pluck',
    drums: 'four',
  },
  {
    words: /\b(rock|punk|metal|guitar|energetic|action|upbeat)/i,
    tempo: [118, 140],
    mode: 'minor',
    lead: 'strings',
    drums: 'rock',
  },
  {
    words: /\b(lo-?fi|chill\w*|hip ?hop|study|relax\w*|jazz\w*|cafe)/i,
    tempo: [72, 86],
    mode: 'dorian',
    lead: 'piano',
    drums: 'soft',
    swing: 0.16,
  },
  {
    words: /\b(ambient|calm|sleep|medita\w*|drone|space|peaceful|slow)/i,
    tempo: [58, 68],
    mode: 'major',
    lead: 'pad',
    drums: 'none',
  },
  {
    words: /\b(epic|cinematic|trailer|orchestra\w*|heroic|film)/i,
    tempo: [84, 96],
    mode: 'minor',
    lead: 'strings',
    drums: 'rock',
  },
  {
    words: /\b(sad|melanchol\w*|dark|tense|horror|lonely|rain\w*)/i,
    tempo: [64, 78],
    mode: 'minor',
    lead: 'piano',
    drums: 'none',
  },
  {
    words: /\b(folk|acoustic|country|happy|cheerful|sunny|pop|summer)/i,
    tempo: [100, 116],
    mode: 'major',
    lead: 'pluck',
    drums: 'soft',
  },
]
const PLAIN: Style = { words: /^/, tempo: [84, 104], mode: 'major', lead: 'piano', drums: 'soft' }

/** Named instruments win over those of a style. */
const LEADS: readonly (readonly [RegExp, Instrument])[] = [
  [/\bpiano|keys\b/i, 'piano'],
  [/\bbells?|glockenspiel|marimba|music box|kalimba\b/i, 'bells'],
  [/\bstrings?|violin|cello|orchestra\w*\b/i, 'strings'],
  [/\b(guitar|harp|ukulele|koto|pluck\w*)\b/i, 'pluck'],
  [/\bpads?|choir|organ\b/i, 'pad'],
]

const SCALES = { major: [0, 2, 4, 5, 7, 9, 11], minor: [0, 2, 3, 5, 7, 8, 10], dorian: [0, 2, 3, 5, 7, 9, 10] } as const
/** Degrees of four chords that go round. */
const TURNS = {
  major: [
    [0, 4, 5, 3],
    [0, 5, 3, 4],
    [0, 3, 5, 4],
    [5, 3, 0, 4],
  ],
  minor: [
    [0, 5, 2, 6],
    [0, 3, 5, 4],
    [0, 6, 5, 4],
    [0, 2, 6, 3],
  ],
  dorian: [
    [0, 3, 0, 3],
    [0, 6, 3, 4],
    [1, 4, 0, 5],
  ],
} as const

/** Half tones above the tonic of a degree of the scale, which may lie octaves away. */
const degree = (scale: readonly number[], step: number): number =>
  (scale[((step % 7) + 7) % 7] as number) + 12 * Math.floor(step / 7)
const pitchOf = (key: number): number => 440 * 2 ** ((key - 69) / 12)

const INSTRUMENTS: Readonly<Record<Instrument, (pitch: number, seconds: number) => Track>> = {
  piano: (pitch, seconds) => {
    const decay = 0.9 * (261 / pitch) ** 0.4
    return render(Math.min(seconds + 0.5, 3), (time) => {
      const sum =
        wave(pitch, time) +
        0.5 * wave(2 * pitch, time) * Math.exp(-time * 2) +
        0.25 * wave(3.01 * pitch, time) * Math.exp(-time * 4)
      return 0.6 * sum * injected(0.004, decay)(time) * (time > seconds ? Math.exp((seconds - time) * 9) : 1)
    })
  },
  pluck: (pitch, seconds) => {
    const length = Math.max(2, Math.round(32_000 / pitch))
    const string = new Float32Array(length)
    for (let i = 0; i < length; i++) string[i] = ((i * 7919) % 101) / 50 - 1
    let last = 0
    return low(
      render(Math.min(seconds + 0.8, 2.5), (time) => {
        const i = Math.round(time * 32_000) % length
        const value = string[i] as number
        string[i] = 0.498 * (value + last)
        last = value
        return value
      }),
      5000,
    )
  },
  bells: (pitch, seconds) =>
    render(
      Math.min(seconds + 1.2, 3),
      (time) =>
        0.5 *
        (wave(2 * pitch, time) * Math.exp(-time / 0.8) + 0.4 * wave(5.5 * pitch, time) * Math.exp(-time / 0.15)) *
        Math.min(1, time / 0.002),
    ),
  square: (pitch, seconds) =>
    render(seconds, (time) => 0.35 * Math.sign(wave(pitch, time) + 0.3) * Math.exp(-time * 1.5)),
  pad: (pitch, seconds) => swelling(pitch, seconds, 900),
  strings: (pitch, seconds) => swelling(pitch, seconds, 2200),
}

/** Three voices a little apart, dulled, that come and go. */
function swelling(pitch: number, seconds: number, dull: number): Track {
  const saw = (at: number, time: number) => 2 * ((at * time) % 1) - 1
  const rise = Math.min(0.35, seconds / 3)
  const long = seconds + 0.4
  const body = render(
    long,
    (time) => (saw(pitch, time) + saw(pitch * 1.004, time + 0.3) + saw(pitch * 0.996, time + 0.7)) / 3,
  )
  return shaped(
    low(body, dull),
    (time) => 0.8 * Math.min(1, time / rise) * Math.min(1, Math.max(0, (long - time) / 0.4)),
  )
}

const bass = (pitch: number, seconds: number): Track =>
  render(
    seconds,
    (time) =>
      (0.9 * wave(pitch, time) + 0.25 * wave(2 * pitch, time)) *
      injected(0.01, 0.9)(time) *
      Math.min(1, Math.max(0, (seconds - time) / 0.05)),
  )

function drumsOf(dice: Dice) {
  let phase = 0
  const kick = render(0.3, (time) => {
    phase += (2 * Math.PI * (46 + 120 * Math.exp(-time / 0.025))) / 32_000
    return 1.2 * Math.sin(phase) * injected(0.002, 0.09)(time)
  })
  const snare = shaped(band(noise(0.22, dice), 1900, 1), (time) => 0.8 * injected(0.001, 0.06)(time))
  const hat = shaped(high(noise(0.06, dice), 7000), (time) => 0.35 * injected(0.0005, 0.015)(time))
  return { kick, snare, hat }
}

type Plan = Style & {
  readonly tempoNow: number
  readonly tonic: number
  readonly turn: readonly number[]
  readonly lead: Instrument
}

function planOf(prompt: string, dice: Dice): Plan {
  const style = STYLES.find(({ words }) => words.test(prompt)) ?? PLAIN
  const lead = LEADS.find(([words]) => words.test(prompt))?.[1] ?? style.lead
  const isDrumless = /\b(no drums|without drums|solo|a ?cappella)\b/i.test(prompt)
  const said = Number(/\b(\d{2,3}) ?bpm\b/i.exec(prompt)?.[1] ?? Number.NaN)
  const tempoNow = said >= 40 && said <= 220 ? said : Math.round(dice.between(...style.tempo))
  return {
    ...style,
    lead,
    ...(isDrumless && { drums: 'none' }),
    tempoNow,
    tonic: dice.whole(45, 52),
    turn: dice.pick<readonly number[]>(TURNS[style.mode]),
  }
}

type Note = { readonly beat: number; readonly length: number; readonly step: number }

/** A phrase of two bars: steps that mostly walk, rhythms that mostly rest on the beat. */
function phrase(beats: number, dice: Dice): readonly Note[] {
  const notes: Note[] = []
  let step = dice.pick([0, 2, 4])
  for (let beat = dice.chance(0.25) ? 0.5 : 0; beat < 2 * beats;) {
    const length = dice.pick([0.5, 0.5, 1, 1, 1, 1.5, 2])
    if (!dice.chance(0.15)) notes.push({ beat, length: Math.min(length, 2 * beats - beat), step })
    step = Math.max(-2, Math.min(9, step + dice.pick([-2, -1, -1, 0, 1, 1, 2, 3])))
    beat += length
  }
  return notes
}

/** A piece of about so many seconds, in whole bars: an opening, its theme and an answer to it in turn, and an end on the tonic. */
export function tuneOf({ prompt, seconds }: { prompt: string; seconds: number }): {
  mix: Mix
  seconds: number
  words: string
} {
  const dice = seeded(prompt)
  const plan = planOf(prompt, dice)
  const { beats = 4, tempoNow, tonic, turn, mode, lead, drums, swing = 0 } = plan
  const scale = SCALES[mode]
  const beat = 60 / tempoNow
  const bars = Math.max(2, Math.floor((seconds - TAIL_S) / (beats * beat)))
  const long = bars * beats * beat + TAIL_S
  const mix = stereo(long)
  const at = (bar: number, position: number) => (bar * beats + position + (position % 1 === 0.5 ? swing : 0)) * beat
  const themes = [phrase(beats, dice), phrase(beats, dice)]
  const { kick, snare, hat } = drumsOf(dice)
  const voices = new Map<string, Track>()
  const play = (name: string, key: number, length: number, make: (pitch: number, seconds: number) => Track) => {
    const id = `${name} ${key} ${length.toFixed(3)}`
    const known = voices.get(id) ?? make(pitchOf(key), length)
    voices.set(id, known)
    return known
  }

  for (let bar = 0; bar < bars; bar++) {
    const isLast = bar === bars - 1
    const root = isLast ? 0 : (turn[bar % turn.length] as number)
    const whole = beats * beat
    for (const [index, third] of [0, 2, 4].entries()) {
      const key = tonic + 12 + degree(scale, root + third)
      place(mix, play('pad', key, whole, INSTRUMENTS.pad), { at: at(bar, 0), pan: (index - 1) * 0.5, gain: 0.16 })
    }
    if (bar > 0 || bars < 6) {
      const deep = tonic - 12 + degree(scale, root)
      for (const position of isLast || beats === 3 ? [0] : [0, 2])
        place(mix, play('bass', deep, beat * (isLast ? beats : 1.8), bass), { at: at(bar, position), gain: 0.42 })
    }
    if (!isLast && (bar > 1 || bars < 6)) beatOf(bar)
    const theme = themes[Math.floor(bar / 2) % 4 === 2 ? 1 : 0]
    if (isLast) place(mix, play(lead, tonic + 24, whole, INSTRUMENTS[lead]), { at: at(bar, 0), gain: 0.42 })
    if (!isLast && theme && (bar > 1 || bars < 6)) melodyOf(bar, root, theme)
  }
  return { mix: echoed(mix, 0.25), seconds: long, words: `${mode}, ${tempoNow} bpm, ${lead}` }

  function melodyOf(bar: number, root: number, theme: readonly Note[]): void {
    const half = bar % 2
    for (const { beat: position, length, step } of theme) {
      const inBar = position - half * beats
      if (inBar < 0 || inBar >= beats) continue
      // On the beat a note of the chord sounds better than any other.
      const fitted = inBar % 2 === 0 ? root + 2 * Math.round((step - root) / 2) : step
      const key = tonic + 24 + degree(scale, fitted)
      place(mix, play(lead, key, length * beat * 0.95, INSTRUMENTS[lead]), {
        at: at(bar, inBar),
        pan: 0.15,
        gain: inBar % 2 === 0 ? 0.42 : 0.34,
      })
    }
  }

  function beatOf(bar: number): void {
    if (drums === 'none') return
    for (let position = 0; position < beats; position++) {
      const isBack = position % 2 === 1
      if (drums === 'four' || !isBack) place(mix, kick, { at: at(bar, position), gain: drums === 'soft' ? 0.4 : 0.6 })
      if (isBack) place(mix, snare, { at: at(bar, position), gain: drums === 'soft' ? 0.22 : 0.42, pan: 0.1 })
      for (const off of [0, 0.5])
        place(mix, hat, { at: at(bar, position + off), pan: -0.3, gain: off === 0 ? 0.5 : 0.35 })
    }
  }
}

/** What rings on after the last bar is part of it. */
const TAIL_S = 1.5
